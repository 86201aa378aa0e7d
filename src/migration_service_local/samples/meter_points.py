"""Meter points of the payload with their meters, agreements and dated periods (section 2.3)."""

from collections.abc import Callable
from typing import Any

from migration_service_local.samples import codes
from migration_service_local.samples.codes import cents, split_into_tax_steps, vat
from migration_service_local.samples.connections import Connection
from migration_service_local.samples.dates import Supply

_LOCATIONS = ("", "", "", "Meterkast", "Kelder", "Garage", "Gang, links van de voordeur")


def make_meter_point(
    r: Callable[[], float], connection: Connection, supply: Supply, grid_operator_code: str
) -> dict[str, Any]:
    """Return the meter point of the payload, and compute `connection.advance`."""
    iso = supply.calendar.iso
    smart = "ON" if connection.smart else "OFF"
    is_gas = connection.supply_type == "GAS"
    meter_point: dict[str, Any] = {
        "ean": connection.ean,
        "agreements": _make_agreements(r, connection, supply),
        "last_billed_to_date": iso[supply.billed_to],
        "supply_start_date": iso[supply.start],
        "supply_type": connection.supply_type,
        "smart_meter_administrative_status": smart,
        "market_segment": "RETAIL",
        "location_description": _LOCATIONS[int(r() * len(_LOCATIONS))],
        "meters": [_make_meter(r, connection, iso[supply.start - int(r() * 1400)], smart)],
        "energy_meter_point_configuration_periods": [
            _make_configuration(r, connection, start) for start in _period_starts(r, supply, 0.06)
        ],
        "energy_meter_point_grid_operator_effective_periods": [
            {"grid_operator_code": grid_operator_code, "start_date": iso[supply.start]}
        ],
        "billing_configuration_periods": _make_billing_periods(r, connection, _period_starts(r, supply, 0.1)),
    }
    if not is_gas:
        meter_point["estimated_annual_volumes"] = _make_volumes(connection, _period_starts(r, supply, 0.15))
    return meter_point


def _period_starts(r: Callable[[], float], supply: Supply, share_of_two: float) -> tuple[str, ...]:
    """Return the start of supply, and the start of the history if it is later, for `share_of_two` of them."""
    iso = supply.calendar.iso
    if r() < share_of_two and supply.history_start > supply.start:
        return iso[supply.start], iso[supply.history_start]
    return (iso[supply.start],)


def _make_meter(
    r: Callable[[], float], connection: Connection, active_from: str, smart: str
) -> dict[str, Any]:
    digits = 5 if connection.supply_type == "GAS" else 6
    registers: list[dict[str, Any]] = []
    for direction, of_direction in (
        ("CONSUMPTION", connection.registers),
        ("PRODUCTION", connection.production),
    ):
        for register in of_direction:
            entry: dict[str, Any] = {
                "register_id": register.register_id,
                "metering_direction": direction,
                "multiplication_factor": 1,
                "number_of_digits": digits,
            }
            if register.time_of_use:
                entry["time_of_use"] = register.time_of_use
            registers.append(entry)
    return {
        "meter_id": f"{'G' if digits == 5 else 'E'}{int(r() * 10_000):04d}{int(r() * 10**9):09d}",
        "type": "SMART" if connection.smart else "CONVENTIONAL",
        "smart_meter_technical_communication": smart,
        "active_from": active_from,
        "registers": registers,
    }


def _make_configuration(r: Callable[[], float], connection: Connection, start: str) -> dict[str, Any]:
    profile: str
    if connection.supply_type == "GAS":
        profile = "G1A" if connection.annual < 5_000 else "G2A"
        capacity, cap_tar_code = codes.GAS_CONNECTIONS[2 if profile == "G2A" else int(r() * 2)]
    elif connection.business:
        profile = "E2B" if len(connection.registers) > 1 else "E2A"
        capacity, cap_tar_code = codes.BUSINESS_CONNECTIONS[int(r() * 3)]
    else:
        night = len(connection.registers) > 1
        profile = ("E1B" if r() < 0.6 else "E1C" if r() < 0.3 else "E1A") if night else "E1A"
        capacity, cap_tar_code = codes.ELECTRICITY_CONNECTIONS[int(r() * 3)]
    return {
        "allocation_method": "SMART" if connection.smart else "PROFILE",
        "energy_delivery_status": "ACTIVE",
        "energy_flow_direction": "COMBINED" if connection.production else "CONSUMPTION",
        "metering_method": "MONTHLY" if connection.smart else "YEARLY",
        "physical_status": "IN_OPERATION",
        "profile_category": profile,
        "physical_capacity": capacity,
        "cap_tar_code": cap_tar_code,
        "start_date": start,
    }


def _make_billing_periods(
    r: Callable[[], float], connection: Connection, starts: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return periods. Each ends when the next one starts.

    The last has no end. Gas has no residency status.
    """
    exception = "BUSINESS" if connection.business else "NO_EXCEPTION"
    periods: list[dict[str, Any]] = []
    for start in starts:
        period: dict[str, Any] = {}
        if connection.supply_type == "ELECTRICITY":
            at_home = not connection.business and (len(starts) == 1 or bool(periods)) and r() < 0.98
            period["residency_status"] = "RESIDENT" if at_home else "NON_RESIDENT"
        period["energy_tax_exception"] = exception
        period["start_date"] = start
        if periods:
            periods[-1]["end_date"] = start
        periods.append(period)
    return periods


def _make_volumes(connection: Connection, starts: tuple[str, ...]) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = []
    peak = connection.registers[-1].share if len(connection.registers) > 1 else 0.55
    directions = [("CONSUMPTION", connection.annual, peak)]
    if connection.annual_production:
        directions.append(("PRODUCTION", connection.annual_production, 0.68))
    for direction, annual, share in directions:
        for position, start in enumerate(starts, start=1):
            # The estimate before the current one was a few percent lower.
            volume = annual if position == len(starts) else annual * 93 // 100
            volumes.append(
                {
                    "direction": direction,
                    "energy_netted_peak": int(volume * share),
                    "energy_netted_off_peak": volume - int(volume * share),
                    "start_at": f"{start}T00:00:00",
                    "end_at": None if position == len(starts) else f"{starts[position]}T00:00:00",
                }
            )
    return volumes


_ELECTRICITY_TARIFFS = ("NL-E-FIXED-1Y", "NL-E-FIXED-3Y", "NL-E-VARIABLE", "NL-E-DYNAMIC")
_GAS_TARIFFS = ("NL-G-FIXED-1Y", "NL-G-FIXED-3Y", "NL-G-VARIABLE", "NL-G-DYNAMIC")


def _make_agreements(r: Callable[[], float], connection: Connection, supply: Supply) -> list[dict[str, Any]]:
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
