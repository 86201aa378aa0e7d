"""The parts of an account in lists, created once for all rules."""

import re
from collections.abc import Collection
from datetime import date
from typing import Any, TypeAlias

#: Field names and zero-based indexes, from the account to a value.
Path: TypeAlias = tuple[str | int, ...]
#: An object of the payload. Any key may be missing if the schema found an error.
Item: TypeAlias = dict[str, Any]

OPEN_TRANSACTIONS = "transactions_in_open_settlement_period"
HISTORICAL_TRANSACTIONS = "historical_statement_transactions"

# What may be a date before 1900-01-02 or after 2899, in JSON without spaces.
_UNUSUAL_DATE = re.compile(rb'":"(?!19(?!00-01-01)|2[0-8])[0-9]{4}-[0-9]{2}-')


class CheckedAccount:
    """Account data, with lists of its parts. Each list has pairs of an object and its path.

    `data` is the payload as loaded by the schema (section 2.3): dates are dates, amounts are Decimal. `text`
    is the same as JSON, or None: one look at it shows whether all texts and dates are usual.
    Creating the lists costs a few microseconds, and saves each rule from traversing the payload.
    """

    def __init__(
        self,
        data: Item,
        today: date,
        faulty: Collection[str] = (),
        text: bytes | None = None,
    ) -> None:
        self.data = data
        #: Whether its texts are known to have nothing but printable ASCII, and no question mark.
        self.is_plain = text is not None and _is_plain(text)
        #: Whether its dates are known to be from 1900-01-02 to 2899.
        self.has_usual_dates = text is not None and not _UNUSUAL_DATE.search(text)
        self.today = today
        #: The paths (dot-delimited) at which the schema reported an error.
        self.faulty: frozenset[str] = frozenset(faulty)
        #: The same paths, and every path above them.
        self.touched: frozenset[str] = _with_paths_above(self.faulty)
        self.unknown_occupier: bool = data.get("unknown_occupier", False)
        self.customers: list[Item] = data.get("customers", [])
        self.supply_addresses: list[Item] = data.get("supply_addresses", [])
        self.meter_points: list[tuple[Path, Item]] = []
        #: The agreements, each with its meter point.
        self.agreements: list[tuple[Path, Item, Item]] = []
        #: The monthly advances of the agreements.
        self.templates: list[tuple[Path, Item]] = []
        self.meters: list[tuple[Path, Item]] = []
        #: The dated periods of each kind at each meter point: the path, the fields with the (inclusive) start
        #: and the (exclusive) end, if the kind has one, and the periods with their indexes in the payload.
        self.period_series: list[tuple[Path, str, str | None, list[tuple[int, Item]]]] = []
        self._add_meter_points()
        self.ledgers: list[tuple[Path, Item]] = []
        #: The transactions of all ledgers, and the same by type. Those without a type are only in the first
        #: list.
        self.transactions: list[tuple[Path, Item]] = []
        self.charges_and_credits: list[tuple[Path, Item]] = []
        self.payments: list[tuple[Path, Item]] = []
        self.supply_charges: list[tuple[Path, Item]] = []
        #: Every transaction with line items, and with tax items, whatever its type, and all line items.
        self.itemised: list[tuple[Path, Item, list[Item]]] = []
        self.taxed: list[tuple[Path, Item, list[Item]]] = []
        self.line_items: list[Item] = []
        self._add_ledgers()
        statements = data.get("statements", ())
        self.statements: list[tuple[Path, Item]] = [
            (("statements", i), it) for i, it in enumerate(statements)
        ]

    def is_faulty(self, *path: str | int) -> bool:
        """Return True if the schema reported an error at `path` itself, so that its value is missing."""
        return bool(self.faulty) and ".".join(map(str, path)) in self.faulty

    def is_touched(self, *path: str | int) -> bool:
        """Return True if the schema reported an error at `path` or below it."""
        return bool(self.touched) and ".".join(map(str, path)) in self.touched

    def _add_meter_points(self) -> None:
        for i, address in enumerate(self.supply_addresses):
            for j, meter_point in enumerate(address.get("meter_points", ())):
                path = ("supply_addresses", i, "meter_points", j)
                self.meter_points.append((path, meter_point))
                for k, agreement in enumerate(meter_point.get("agreements", ())):
                    place = (*path, "agreements", k)
                    self.agreements.append((place, agreement, meter_point))
                    if template := agreement.get("monthly_advance_charge_template"):
                        self.templates.append(((*place, "monthly_advance_charge_template"), template))
                meters = meter_point.get("meters", ())
                self.meters += [((*path, "meters", k), meter) for k, meter in enumerate(meters)]
                self._add_period_series(path, meter_point)

    def _add_period_series(self, path: Path, meter_point: Item) -> None:
        for kind, end in _KINDS_OF_PERIODS:
            if periods := meter_point.get(kind):
                self.period_series.append(((*path, kind), "start_date", end, [*enumerate(periods)]))
        if volumes := meter_point.get("estimated_annual_volumes"):
            # Consumption and generation have separate estimates.
            by_direction: dict[str | None, list[tuple[int, Item]]] = {}
            for i, volume in enumerate(volumes):
                by_direction.setdefault(volume.get("direction"), []).append((i, volume))
            for direction, periods in by_direction.items():
                if direction:
                    kind_path = (*path, "estimated_annual_volumes")
                    self.period_series.append((kind_path, "start_at", "end_at", periods))

    def _add_ledgers(self) -> None:
        transactions = self.transactions
        for i, ledger in enumerate(self.data.get("ledgers", ())):
            self.ledgers.append((("ledgers", i), ledger))
            for kind in (HISTORICAL_TRANSACTIONS, OPEN_TRANSACTIONS):
                transactions += [(("ledgers", i, kind, j), it) for j, it in enumerate(ledger.get(kind, ()))]
        by_type: dict[str, list[tuple[Path, Item]]] = {
            "SUPPLY_CHARGE": self.supply_charges,
            "PAYMENT": self.payments,
            "REPAYMENT": self.payments,
            "CHARGE": self.charges_and_credits,
            "CREDIT": self.charges_and_credits,
        }
        untyped: list[tuple[Path, Item]] = []
        for pair in transactions:
            transaction = pair[1]
            by_type.get(transaction.get("type", ""), untyped).append(pair)
            if line_items := transaction.get("line_items"):
                self.itemised.append((pair[0], transaction, line_items))
                self.line_items += line_items
            if tax_items := transaction.get("tax_items"):
                self.taxed.append((pair[0], transaction, tax_items))


def _is_plain(text: bytes) -> bool:
    return text.isascii() and not any(it in text for it in (b"\\", b"?", b"\x7f"))


def _with_paths_above(paths: frozenset[str]) -> frozenset[str]:
    if not paths:
        return paths
    split = [path.split(".") for path in paths]
    return frozenset(".".join(parts[:length]) for parts in split for length in range(1, len(parts) + 1))


_KINDS_OF_PERIODS: tuple[tuple[str, str | None], ...] = (
    ("energy_meter_point_configuration_periods", None),
    ("energy_meter_point_grid_operator_effective_periods", None),
    ("billing_configuration_periods", "end_date"),
)
