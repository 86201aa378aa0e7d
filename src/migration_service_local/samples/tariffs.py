"""Energy tax and VAT. Money is in whole numbers: cents, and euro / 100,000 for prices."""

from typing import Final

#: VAT in percent.
VAT_PERCENT: Final = 21
#: Reduction of the energy tax of a home's electricity, euro / 100,000 a day without VAT.
ENERGY_TAX_REDUCTION: Final = -143_822

ADVANCE_TAX_BANDS: Final = tuple(f"ADVANCE_ENERGY_TAX_STEP_{step}" for step in range(1, 6))

#: The steps of the energy tax: the yearly bound (kWh or m3) and the rate in euro / 100,000 a unit.
ENERGY_TAX_STEPS: Final = {
    "ELECTRICITY": ((2_900, 10_154), (10_000, 10_154), (50_000, 6_937), (10_000_000, 3_868), (10**12, 321)),
    "GAS": ((1_000, 57_816), (170_000, 57_816), (1_000_000, 31_573), (10_000_000, 20_347), (10**12, 5_385)),
}


def cents(units: int, price: int) -> int:
    """Return units times price (euro / 100,000) in cents, at most half a cent from the exact product."""
    return (units * price + 500) // 1000


def vat(net: int) -> int:
    """Return the VAT on `net`, both in cents."""
    return (net * VAT_PERCENT + 50) // 100


def split_into_tax_steps(units: int, supply_type: str, months: int) -> list[tuple[str, int, int]]:
    """Return the band, units and rate of each energy tax step that applies to `units` in `months` months."""
    parts = []
    below = 0
    for band, (yearly_bound, rate) in zip(ADVANCE_TAX_BANDS, ENERGY_TAX_STEPS[supply_type], strict=True):
        bound = yearly_bound * months // 12
        parts.append((band, min(units, bound) - below, rate))
        if units <= bound:
            break
        below = bound
    return parts
