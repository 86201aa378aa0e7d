"""Joins the rows of the files into accounts, and tells what does not map."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from migration_service_client.command.conversion.mapping import ABSENT, File, Item, Plan
from migration_service_client.command.conversion.problems import CellError, Code, Problem
from migration_service_client.command.conversion.store import SKIPPED, Marks, Store, StoredRow

_Rows = list[StoredRow]
_Problems = dict[Problem, None]


@dataclass(slots=True)
class Account:
    """A payload, and what did not map in it. One that is held back is not written."""

    payload: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)
    #: Whether it is left out on purpose.
    skipped: bool = False

    @property
    def is_held_back(self) -> bool:
        """Return whether it must not be written."""
        return self.skipped or any(it.holds_back for it in self.problems)


class Assembly:
    """The accounts of a mapping. `counts` has the number of rows of each file."""

    def __init__(self, plan: Plan, store: Store, counts: dict[str, int]) -> None:
        self._plan = plan
        self._store = store
        #: The rows that were found by their keys, and those of which something was made.
        self._visited = {name: Marks(count) for name, count in counts.items()}
        self._used = {name: Marks(count) for name, count in counts.items()}
        #: The rows of the account that one `when` did not take. Another one may.
        self._refused: list[tuple[File, StoredRow]] = []

    def accounts(self) -> Iterator[Account]:
        """Yield an account for each row, or group of rows, of the first file, in its order."""
        item = self._plan.account
        if item.group:
            groups = self._store.groups(item.file, item.lookup)
        else:
            groups = ([row] for row in self._store.all(item.file))
        for rows in groups:
            yield self._account(item, rows)

    def unused_rows(self) -> Iterator[Problem]:
        """Yield the rows that belong to no account. Call it after all accounts."""
        parents = {file.name: _parents(self._plan.account, file) for file in self._plan.files}
        for file in self._plan.files:
            for row in self._store.all(file):
                if row.number in self._visited[file.name] or row.fault == SKIPPED:
                    continue
                if row.fault is not None:
                    yield _row_problem(file, row)
                else:
                    detail, column = parents[file.name]
                    yield Problem(file.name, row.line, column, Code.ROW_WITHOUT_PARENT, detail)

    def _account(self, item: Item, rows: _Rows) -> Account:
        problems: _Problems = {}
        self._refused = []
        kept = self._take(item, rows, problems)
        if all(row.fault == SKIPPED for row in rows):
            return Account({}, skipped=True)
        payload = self._object(item, kept, problems) if kept else {}
        for file, row in self._refused:
            if row.number not in self._used[file.name]:
                detail = "No `when` of the mapping takes this row."
                problems[Problem(file.name, row.line, None, Code.NO_CONDITION_MET, detail)] = None
        number = payload.get("external_account_number")
        named = [_replace_account(it, number) for it in problems]
        return Account(payload, named)

    def _take(self, item: Item, rows: _Rows, problems: _Problems) -> _Rows:
        """Return the rows of which an item is made, and mark all rows that were seen."""
        visited, used = self._visited[item.file.name], self._used[item.file.name]
        kept = []
        for row in rows:
            new = visited.add(row.number)
            if row.fault is not None:
                if row.fault != SKIPPED and (new or row.fault.code is not Code.REPEATED_ROW):
                    problems[_row_problem(item.file, row)] = None
                # What belongs to it is not without a parent.
                self._object(item, [row], {})
            elif all(row.cells[place] in cells for place, cells in item.when):
                used.add(row.number)
                kept.append(row)
            else:
                self._refused.append((item.file, row))
                self._object(item, [row], {})
        return kept

    def _object(self, item: Item, rows: _Rows, problems: _Problems) -> Any:
        data: dict[str, Any] = {}
        for name, value in item.values.items():
            try:
                found = value.read(rows[0].cells)
                if len(rows) > 1 and any(value.read(row.cells) != found for row in rows[1:]):
                    raise CellError(Code.ROWS_DIFFER, _differs(rows))
            except CellError as error:
                column = ", ".join(value.columns)
                problem = Problem(item.file.name, rows[0].line, column, error.code, error.detail)
                problems[problem] = None
                continue
            if found is not ABSENT:
                data[name] = found
        if item.plain:
            return data.get("", ABSENT)
        for name, below in item.below:
            self._add(data, name, below, rows, problems)
        return data

    def _add(self, data: dict[str, Any], name: str, item: Item, rows: _Rows, problems: _Problems) -> None:
        """Add the object or the objects of `item` to `data`."""
        groups = list(self._groups(item, rows, problems))
        if len(groups) > 1 and not item.many:
            place = f"{item.file.name}: {len(groups)} rows belong to one object, {item.place}."
            line = groups[1][0].line
            problems[Problem(item.file.name, line, None, Code.SEVERAL_ROWS, place)] = None
        made = [it for it in (self._made(item, group, problems) for group in groups) if it is not ABSENT]
        if made and item.many:
            data.setdefault(name, []).extend(made)
        elif made:
            data[name] = made[0]

    def _made(self, item: Item, rows: _Rows, problems: _Problems) -> Any:
        """Return an object, or ABSENT if all columns of one without a file of its own are empty."""
        made = self._object(item, rows, problems)
        if item.joined or item.plain:
            return made
        variable = [name for name, value in item.values.items() if value.columns]
        variable += [name for name, _ in item.below]
        return made if not variable or any(name in made for name in variable) else ABSENT

    def _groups(self, item: Item, outer: _Rows, problems: _Problems) -> Iterator[_Rows]:
        """Yield the rows of each object of an item within what `outer` is."""
        if item.joined:
            keys = dict.fromkeys(tuple(row.cells[it] for it in item.parent_positions) for row in outer)
            found = [row for key in keys for row in self._store.find(item.file, item.lookup, key)]
            rows = self._take(item, found, problems)
        else:
            rows = [row for row in outer if all(row.cells[at] in cells for at, cells in item.when)]
        if not item.group:
            # What there is once is made of all rows around it, which must agree.
            yield from [[row] for row in rows] if item.many or item.joined else ([rows] if rows else [])
            return
        groups: dict[tuple[str, ...], _Rows] = {}
        for row in rows:
            groups.setdefault(tuple(row.cells[it] for it in item.group), []).append(row)
        yield from groups.values()


def _row_problem(file: File, row: StoredRow) -> Problem:
    assert row.fault is not None  # noqa: S101
    return Problem(file.name, row.line, row.fault.column, Code(row.fault.code), row.fault.detail)


def _replace_account(problem: Problem, number: Any) -> Problem:
    account = number if isinstance(number, str) else None
    return Problem(problem.file, problem.row, problem.column, problem.code, problem.detail, account)


def _differs(rows: Sequence[StoredRow]) -> str:
    lines = ", ".join(str(row.line) for row in rows[:5])
    return f"Rows {lines} are one object of the payload, but differ in this."


def _parents(item: Item, file: File) -> tuple[str, str | None]:
    """Return why a row of a file may be without a parent, and the column of its key."""
    joins = [(at, outer) for at, outer in _joined(item) if at.file is file]
    if not joins:
        return "The mapping makes nothing of this file.", None
    names = " or ".join(dict.fromkeys(outer.file.name for _, outer in joins))
    columns = ", ".join(file.lookups[joins[0][0].lookup])
    return f"No row of {names} has the {columns} of this row.", columns


def _joined(item: Item) -> Iterator[tuple[Item, Item]]:
    """Yield each item that has a file of its own, with the one around it."""
    for _, below in item.below:
        if below.joined:
            yield below, item
        yield from _joined(below)
