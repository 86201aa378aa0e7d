"""Agreements and their monthly advance charge templates (section 2.3)."""

from collections.abc import Callable
from typing import Any

from migration_service_local.samples.connections import Connection
from migration_service_local.samples.dates import Supply
from migration_service_local.samples.tariffs import cents, split_into_tax_steps, vat

_ELECTRICITY_TARIFFS = ("NL-E-FIXED-1Y", "NL-E-FIXED-3Y", "NL-E-VARIABLE", "NL-E-DYNAMIC")
_GAS_TARIFFS = ("NL-G-FIXED-1Y", "NL-G-FIXED-3Y", "NL-G-VARIABLE", "NL-G-DYNAMIC")


def make_agreements(r: Callable[[], float], connection: Connection, supply: Supply) -> list[dict[str, Any]]:
    """Return one or two agreements. The first one starts with the supply."""
    iso = supply.calendar.iso
    tariffs = _GAS_TARIFFS if connection.supply_type == "GAS" else _ELECTRICITY_TARIFFS
    days = [supply.start]
    if supply.history_start > supply.start and r() < 0.12:
        days.append(supply.history_start)
    agreements = []
    for position, day in enumerate(days, start=1):
        contract = f"C-{supply.number}-{connection.supply_type[0]}{position}"
        tariff = tariffs[int(r() * len(tariffs))]
        agreement: dict[str, Any] = {
            "supply_type": connection.supply_type,
            "effective_from": iso[day],
            "agreed_at": iso[day - 2 - int(r() * 40)],
            "tariff_code": tariff,
            "params": {"historical_contract_number": contract},
        }
        if r() < 0.8:
            agreement["params"]["historical_contract_pdf_path"] = f"contracts/{iso[day][:4]}/{contract}.pdf"
        agreement["monthly_advance_charge_template"] = _make_advance_template(
            connection, dynamic=tariff.endswith("DYNAMIC"), with_details=r() < 0.35
        )
        agreements.append(agreement)
    return agreements


def _make_advance_template(connection: Connection, *, dynamic: bool, with_details: bool) -> dict[str, Any]:
    """Return the monthly advance, which is a twelfth of a year's costs.

    Set `connection.advance` to its sum.
    """
    registers = connection.registers
    price = int(sum(register.price * register.share for register in registers))
    taxed = max(0, connection.annual - connection.annual_production) // 12
    costs = [
        (f"ADVANCE_SUPPLIER_{'DYNAMIC' if dynamic else 'PURCHASING'}_COST", cents(taxed, price)),
        ("ADVANCE_SUPPLIER_FIXED_COST", cents(365, connection.fixed) // 12),
        ("ADVANCE_GRID_FEE", cents(365, connection.grid) // 12),
    ]
    costs += [
        (band, cents(units, rate))
        for band, units, rate in split_into_tax_steps(taxed, connection.supply_type, 1)
        if units > 0
    ]
    total = 0
    details = []
    for band, net in costs:
        tax = vat(net)
        total += net + tax
        details.append({"band": band, "net_amount": net / 100, "tax_amount": tax / 100, "tax_rate": 0.21})
    connection.advance = total
    template: dict[str, Any] = {
        "total_monthly_advance_amount": f"{total // 100}.{total % 100:02d}",
        "forecast_annual_consumption": str(connection.annual),
        "forecast_consumption_units": (
            "CUBIC_METRES_CONSUMPTION" if connection.supply_type == "GAS" else "KWH_CONSUMPION"
        ),
    }
    if connection.annual_production:
        template["forecast_annual_generation"] = str(connection.annual_production)
        template["forecast_generation_units"] = "KWH_CONSUMPION"
    if with_details:
        template["cost_details"] = details
    return template
