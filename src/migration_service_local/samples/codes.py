"""Numbers with a check digit: EANs and capacity tariff codes. Energy tax and VAT.

Money is in whole numbers: cents, and euro / 100,000 for prices.
"""

from typing import Final

from migration_payloads.rules.gs1 import check_digit

#: The maximum number of meter points of an account. Account i owns the serial numbers 8 i to 8 i + 7.
METER_POINTS_AN_ACCOUNT: Final = 8

_SERIALS: Final = 10**11
# Odd and no multiple of 5, so that multiplying modulo 10^11 only shuffles the serial numbers.
_SHUFFLE: Final = 38_196_601_127
# The golden ratio spreads the seeds' ranges of serial numbers evenly.
_SEED_STEP: Final = 61_803_398_875


def make_ean(prefix: str, seed: int, serial: int) -> str:
    """Return an 18-digit EAN. `prefix` has six digits. Different serials below 10^11 have different EANs.

    None looks as if it had been rounded.
    """
    shuffled = (serial + seed * _SEED_STEP) * _SHUFFLE % _SERIALS
    while (ean := _with_check_digit(f"{prefix}{shuffled:011d}")).endswith("000"):
        shuffled = (shuffled * _SHUFFLE + 7) % _SERIALS
    return ean


def _with_check_digit(body: str) -> str:
    return body + check_digit(body)


#: Connections for electricity: physical capacity in kW and cap_tar_code; 1x35 A, 3x25 A, 3x35 A.
ELECTRICITY_CONNECTIONS: Final = (
    (8.05, _with_check_digit("874201010110")),
    (17.25, _with_check_digit("874201010211")),
    (24.15, _with_check_digit("874201010312")),
)
#: The same for a small business: 3x50, 3x63, 3x80 A.
BUSINESS_CONNECTIONS: Final = (
    (34.5, _with_check_digit("874201010413")),
    (43.5, _with_check_digit("874201010514")),
    (55.2, _with_check_digit("874201010615")),
)
#: Gas meters: capacity in cubic metres an hour and cap_tar_code; G4, G6, G16.
GAS_CONNECTIONS: Final = (
    (6.0, _with_check_digit("874209020211")),
    (10.0, _with_check_digit("874209020211")),
    (25.0, _with_check_digit("874209020312")),
)

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
