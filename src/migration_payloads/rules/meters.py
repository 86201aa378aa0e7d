"""Rules for meters and their registers."""

from collections.abc import Iterator

from migration_payloads.rules.account import CheckedAccount
from migration_payloads.rules.rule import Fault, Severity, find_repeated_in, rule
from migration_payloads.schemas.messages import shown


@rule(Severity.WARNING, remedy="Send each meter of a meter point once, with all of its registers.")
def meter_point_with_duplicate_meter_ids(account: CheckedAccount) -> Iterator[Fault]:
    """A meter point has two meters with the same meter_id."""
    for path, meter_point in account.meter_points:
        for i, meter_id, first in find_repeated_in(meter_point.get("meters", ()), "meter_id"):
            yield (
                (*path, "meters", i, "meter_id"),
                f"The meter {shown(meter_id)} is already meters.{first}: send it once.",
            )


@rule(Severity.ERROR, remedy="Give each register of a meter its own register_id.")
def meter_with_duplicate_register_ids(account: CheckedAccount) -> Iterator[Fault]:
    """A meter has two registers with the same register_id."""
    for path, meter in account.meters:
        for i, register_id, first in find_repeated_in(meter.get("registers", ()), "register_id"):
            yield (
                (*path, "registers", i, "register_id"),
                f"The register {shown(register_id)} is already registers.{first}: "
                "give each its own register_id.",
            )


@rule(Severity.WARNING, remedy="Send the registers of the meter: without one nothing can be read.")
def meter_without_registers(account: CheckedAccount) -> Iterator[Fault]:
    """A meter has no register."""
    for path, meter in account.meters:
        if not meter.get("registers"):
            yield (*path, "registers"), "The meter has no register: send what it counts."


@rule(Severity.WARNING, remedy="Send the number that is on the meter, or leave the field out.")
def register_number_below_one(account: CheckedAccount) -> Iterator[Fault]:
    """A register multiplies its readings by a number below one, or has no digits."""
    for path, meter in account.meters:
        for i, register in enumerate(meter.get("registers", ())):
            for field in ("multiplication_factor", "number_of_digits"):
                if register.get(field, 1) < 1:
                    yield (
                        (*path, "registers", i, field),
                        f"{field} is at least 1, not {register[field]}.",
                    )
