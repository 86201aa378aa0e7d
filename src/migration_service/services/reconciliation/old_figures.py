"""The figures of the old system: taking in their file, and comparing them with the created accounts.

The newest file of a supplier holds. Its figures are compared with what the accounts are now, with the data
that was added to them since their creation, as the last stage of each comparison.
"""

import csv
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from redis import Redis
from sqlalchemy import Uuid, bindparam, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import Line
from migration_payloads.normal_form import read_json
from migration_payloads.schemas.base import limit_errors, load
from migration_payloads.schemas.bounds import MAX_ERRORS
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service import errors
from migration_service.db.base import literals, new_id
from migration_service.db.cancelling import allow_minutes
from migration_service.db.sql import OpenTransaction
from migration_service.models import Comparison, FigureDifference, OldFigure, OldFigures
from migration_service.schemas.old_figures import OldFiguresLineSchema
from migration_service.services.batches.intake.quotas import lease_upload
from migration_service.services.batches.intake.spool import SpooledLines, spool
from migration_service.services.batches.intake.storing import IntakeLimits
from migration_service.services.reconciliation.created_sql import PLAN_EACH_TIME
from migration_service.services.reconciliation.differences import FigureTotals, Totals
from migration_service.services.reconciliation.submitted import PAGE_OF_LINES
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import Figure, FigureBucket, ImportState, TransactionPeriod

#: The number of accounts compared together.
PAGE = 1_000
_COLUMNS = (
    *("file_name", "file_bytes", "accounts", "tolerance", "tolerance_days", "uploaded_at", "uploaded_by"),
)
_ACCOUNT = "external_account_number"
_LINE = OldFiguresLineSchema()
_AMOUNTS = (Figure.LEDGER_BALANCES, Figure.MONTHLY_ADVANCE_AMOUNT)
_COUNTS = (Figure.METER_POINTS, Figure.OPEN_TRANSACTIONS)
_DATES = (Figure.LAST_BILLED_TO_DATE, Figure.LAST_READING_DATE)
_SEPARATORS = (",", ";", "\t")
_CENT, _EURO = Decimal("0.01"), Decimal(1)
_NOTHING = Decimal(0)
#: The file is on this machine's disk, so this is the time that the COPY may take.
_LONGEST_COPY = "1h"


class Tolerance(NamedTuple):
    """The differences that are no problem: in euros, and in days."""

    amount: Decimal
    days: int


def take_in_figures(
    sessions: sessionmaker[Session],
    supplier: KnownSupplier,
    blocks: Iterable[bytes],
    tolerance: Tolerance,
    *,
    file_name: str | None,
    by: str,
    redis: Redis,
    limits: IntakeLimits,
) -> None:
    """Read a file with figures completely, and store it in place of the one before.

    No database connection is held while `blocks` arrive. Raise RequestFailedValidationError with the line and
    the path of each error, and the errors of `spool` and `lease_upload`. Nothing is stored then.
    """
    with (
        lease_upload(redis, supplier.organisation_id, limits.uploads) as renew,
        spool(
            blocks, limits.file, identity=b"", folder=limits.folder, on_block=renew, examine=_require_lines
        ) as lines,
        sessions.begin() as session,
    ):
        _store(session, supplier, lines, tolerance, file_name=file_name, by=by)


def _require_lines(lines: Iterable[Line]) -> Iterator[Line]:
    found = False
    for line in lines:
        found = True
        yield line
    if not found:
        raise errors.BatchFileError("The file has no lines.")


def _store(
    session: Session,
    supplier: KnownSupplier,
    lines: SpooledLines,
    tolerance: Tolerance,
    *,
    file_name: str | None,
    by: str,
) -> None:
    values = {
        "upload_id": new_id(),
        "file_name": file_name,
        "file_sha256": lines.sent_file.sha256,
        "file_bytes": lines.sent_file.bytes,
        "accounts": 0,
        "tolerance": tolerance.amount,
        "tolerance_days": tolerance.days,
        "uploaded_by": by,
    }
    stored = insert(OldFigures).values(import_supplier_id=supplier.id, **values)
    # This also locks the row, so that of two files at the same time one holds as a whole.
    changed = values | {"uploaded_at": func.now()}
    session.execute(stored.on_conflict_do_update(index_elements=["import_supplier_id"], set_=changed))
    allow_minutes(session, _LONGEST_COPY)
    session.execute(delete(OldFigure).where(OldFigure.import_supplier_id == supplier.id))
    wrong: list[errors.ErrorItem] = []
    accounts = 0
    with OpenTransaction.of(session).copy(_COPY) as copy:
        for number, figures in _read(lines, wrong):
            account = figures.pop(_ACCOUNT)
            copy.write_row((supplier.id, number, account, encode_json(figures).decode()))
            accounts += 1
    own = {"import_supplier_id": supplier.id}
    wrong += [_repeated(*row) for row in session.execute(_REPEATED, own | {"limit": MAX_ERRORS})]
    if wrong:
        raise errors.RequestFailedValidationError(errors=limit_errors(wrong))
    if not accounts:
        raise errors.BatchFileError("The file has no accounts.")
    session.execute(_REMOVE_ERASED, own)
    stored_row = session.get_one(OldFigures, supplier.id)
    stored_row.accounts = accounts


def _repeated(line_number: int, first: int) -> errors.ErrorItem:
    detail = f"The account of this line is also on line {first}. Send each account once."
    return errors.ErrorItem(errors.DuplicateLineError.code, detail, f"{line_number}.{_ACCOUNT}")


def _read(lines: Iterable[Line], wrong: list[errors.ErrorItem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the values of each line of NDJSON or CSV, and add the errors of the others."""
    is_json, table = True, None
    for index, line in enumerate(lines):
        if len(wrong) > MAX_ERRORS:
            return
        try:
            if line.text is None:
                raise errors.LineTooLongError
            if index == 0 and not line.text.startswith(b"{"):
                is_json = False
                table = _Table(line.text)
                continue
            value = parse_json(line.text) if is_json or table is None else table.read(line.text)
        except errors.InvalidError as error:
            wrong += _placed(line, error.errors)
            if index == 0 and not is_json:
                return
            continue
        found, of_line = load(_LINE, value)
        if of_line:
            wrong += _placed(line, of_line)
        else:
            yield line.number, found


class _Table:
    """CSV, whose separator follows from its header."""

    def __init__(self, header: bytes) -> None:
        """Raise RequestFailedValidationError if a column is unknown, repeated, or missing."""
        self._separator = max(_SEPARATORS, key=header.decode(errors="replace").count)
        self._header = [cell.strip() for cell in self._cells(header)]
        if wrong := [*self._find_wrong_columns()]:
            raise errors.RequestFailedValidationError(errors=wrong)

    def read(self, row: bytes) -> dict[str, Any]:
        """Return the values of a row. A cell that is empty is left out. Raise ParseError."""
        cells = self._cells(row)
        if len(cells) > len(self._header):
            raise errors.ParseError(
                f"This row has {len(cells)} cells, and the header has {len(self._header)}."
            )
        value: dict[str, Any] = {}
        for name, cell in zip(self._header, cells, strict=False):
            first, _, code = name.partition(".")
            if not cell:
                continue
            if code:
                value.setdefault(first, {})[code] = cell
            elif first in _COUNTS and cell.isascii() and cell.isdigit():
                value[first] = int(cell[:20])
            else:
                value[first] = cell
        return value

    def _cells(self, row: bytes) -> list[str]:
        try:
            return next(csv.reader([row.decode()], strict=True, delimiter=self._separator))
        except (UnicodeDecodeError, csv.Error) as error:
            raise errors.ParseError(f"This is no CSV in UTF-8: {error}.") from error

    def _find_wrong_columns(self) -> Iterator[errors.ErrorItem]:
        if _ACCOUNT not in self._header:
            detail = "The header of the CSV lacks this column. For NDJSON, send a JSON object on each line."
            yield errors.ErrorItem("required", detail, _ACCOUNT)
        for place, name in enumerate(self._header):
            first, dot, _ = name.partition(".")
            if first not in _LINE.fields or bool(dot) != (first == Figure.LEDGER_BALANCES):
                yield errors.ErrorItem(
                    "unknown_field", "A file of figures has no such column.", name[:128] or None
                )
            elif name in self._header[:place]:
                yield errors.ErrorItem("invalid", "The header has this column twice.", name[:128])


def _placed(line: Line, wrong: Iterable[errors.ErrorItem]) -> Iterator[errors.ErrorItem]:
    """Yield the errors of a line with paths that begin with its number."""
    for it in wrong:
        yield errors.ErrorItem(
            it.code, it.detail, f"{line.number}.{it.attr}" if it.attr else str(line.number)
        )


def get_figures(session: Session, supplier: KnownSupplier) -> OldFigures:
    """Return the newest file of a supplier. Raise OldFiguresNotFoundError."""
    found = session.get(OldFigures, supplier.id)
    if found is None:
        raise errors.OldFiguresNotFoundError
    return found


def describe_figures(file: OldFigures, comparison: Comparison | None) -> dict[str, Any]:
    """Return what is known of a file, and the counts of the kept comparison if that has compared it."""
    totals = msgspec.convert(comparison.totals, Totals).figures if comparison else FigureTotals()
    kept = comparison if totals.upload_id == file.upload_id else None
    if kept is None:
        totals = FigureTotals()
    return {name: getattr(file, name) for name in _COLUMNS} | {
        "file_sha256": file.file_sha256.hex(),
        "comparison_id": kept and kept.id,
        "compared_at": kept and kept.finished_at,
        "compared": totals.compared,
        "not_created": totals.not_created,
        "differing": totals.differing,
        "figures": totals.list_counts(),
    }


def list_figure_differences(
    session: Session,
    comparison: Comparison | None,
    *,
    bucket: str | None = None,
    figure: str | None = None,
    after: int | None = None,
    limit: int,
) -> list[FigureDifference]:
    """Return differences of a comparison in their order, after the one with this number."""
    if comparison is None:
        return []
    wanted = select(FigureDifference).where(
        FigureDifference.comparison_id == comparison.id, FigureDifference.number > (after or 0)
    )
    if bucket is not None:
        wanted = wanted.where(FigureDifference.bucket == bucket)
    if figure is not None:
        wanted = wanted.where(FigureDifference.figure == figure)
    return [*session.scalars(wanted.order_by(FigureDifference.number).limit(limit))]


def compare_figures(session: Session, comparison: Comparison, totals: FigureTotals) -> dict[str, Any] | None:
    """Compare a page of figures with the accounts, and add it to `totals` and to the differences.

    Return the place of the next page, or None after the last one. If another file has arrived, the comparison
    of the figures begins again.
    """
    file = session.get(OldFigures, comparison.import_supplier_id)
    if file is None:
        return None
    place = comparison.place or {}
    if totals.upload_id != file.upload_id:
        if totals.differences:
            own = FigureDifference.comparison_id == comparison.id
            session.execute(delete(FigureDifference).where(own))
        totals.clear(file.upload_id)
        place = {}
    listed = _PAGE if comparison.batch_id is None else _PAGE_OF_BATCH
    values = {"import_supplier_id": comparison.import_supplier_id, "batch_id": comparison.batch_id}
    session.execute(PLAN_EACH_TIME)
    rows = session.execute(listed, {**values, "after": place.get("after", 0), "limit": PAGE}).all()
    tolerance = Tolerance(file.tolerance, file.tolerance_days)
    for row in rows:
        if row.figures is None:
            continue
        for found in _compare_account(totals, row, tolerance):
            totals.differences += 1
            found.comparison_id, found.number = comparison.id, totals.differences
            found.external_account_number = row.external_account_number
            session.add(found)
    return {"after": rows[-1].place} if len(rows) == PAGE else None


def _compare_account(totals: FigureTotals, row: Any, tolerance: Tolerance) -> Iterator[FigureDifference]:
    """Compare the figures of one account. Yield what differs."""
    if row.created is None:
        if not row.is_excluded:
            totals.not_created += 1
            totals.differing += 1
            yield FigureDifference(figure=Figure.ACCOUNT, bucket=FigureBucket.MORE, is_tolerated=False)
        return
    totals.compared += 1
    is_differing = False
    for figure, code, old, created in _pair(read_json(row.figures), read_json(row.created)):
        bucket, is_tolerated = _judge(figure, old, created, tolerance)
        totals.add(figure, bucket)
        if bucket is not FigureBucket.EQUAL:
            is_differing |= not is_tolerated
            yield FigureDifference(
                figure=figure,
                ledger_code=code,
                old=str(old),
                created=None if created is None else str(created),
                bucket=bucket,
                is_tolerated=is_tolerated,
            )
    totals.differing += is_differing


def _pair(figures: dict[str, Any], created: dict[str, Any]) -> Iterator[tuple[Figure, str | None, Any, Any]]:
    """Yield each figure that is given: what it is, its ledger, its value, and that of the account."""
    for name, old in figures.items():
        figure = Figure(name)
        if figure is not Figure.LEDGER_BALANCES:
            yield figure, None, old, created[name]
            continue
        has = created[name] or {}
        for code in {**old, **has}:
            if code in old or has[code]:  # an empty ledger need not be given
                yield figure, code, old.get(code, _NOTHING), has.get(code, _NOTHING)


def _judge(figure: Figure, old: Any, created: Any, tolerance: Tolerance) -> tuple[FigureBucket, bool]:
    """Return how far a figure is from that of the account, and whether that is tolerated."""
    if figure in _AMOUNTS:
        apart = abs(Decimal(old) - Decimal(created or 0))
        sizes = (
            (_NOTHING, FigureBucket.EQUAL),
            (_CENT, FigureBucket.WITHIN_CENT),
            (_EURO, FigureBucket.WITHIN_EURO),
        )
        bucket = next((bucket for size, bucket in sizes if apart <= size), FigureBucket.MORE)
        return bucket, apart <= tolerance.amount
    if old == created:
        return FigureBucket.EQUAL, True
    is_near = figure in _DATES and created is not None
    days = abs((date.fromisoformat(old) - date.fromisoformat(created)).days) if is_near else None
    return FigureBucket.MORE, days is not None and days <= tolerance.days


_COPY = "COPY old_figure (import_supplier_id, line_number, external_account_number, figures) FROM STDIN"

_REPEATED = text("""
    SELECT line_number, first
    FROM (SELECT line_number, min(line_number) OVER (PARTITION BY external_account_number) AS first
          FROM old_figure WHERE import_supplier_id = :import_supplier_id) AS placed
    WHERE line_number > first ORDER BY line_number LIMIT :limit
""")

# Figures that arrive after their account was erased.
_REMOVE_ERASED = text("""
    DELETE FROM old_figure AS figure
    WHERE import_supplier_id = :import_supplier_id
      AND (EXISTS (SELECT FROM account
                   WHERE account.import_supplier_id = figure.import_supplier_id
                     AND account.external_account_number = figure.external_account_number
                     AND erased_at IS NOT NULL)
           OR EXISTS (SELECT FROM skip_mark
                      WHERE skip_mark.import_supplier_id = figure.import_supplier_id
                        AND skip_mark.external_account_number = figure.external_account_number
                        AND erased_at IS NOT NULL))
""")

# What an account has now. Each table is read by the key of the row before, as in `created_accounts`. The
# agreement of a meter point is the one in effect, or else the next one.
_CREATED = f"""
    json_build_object(
        '{Figure.LEDGER_BALANCES}', (
            SELECT json_object_agg(ledger_code, ledger_balance) FROM ledger WHERE account_pk = account.id),
        '{Figure.LAST_BILLED_TO_DATE}', points.last_billed, '{Figure.METER_POINTS}', points.number,
        '{Figure.MONTHLY_ADVANCE_AMOUNT}', points.advance,
        '{Figure.OPEN_TRANSACTIONS}', (
            SELECT count(*) FROM "transaction"
            WHERE account_pk = account.id
              AND period IN ({literals((TransactionPeriod.OPEN, TransactionPeriod.ADDED))})),
        '{Figure.LAST_READING_DATE}', (
            SELECT max(end_date)
            FROM (SELECT id FROM "transaction" WHERE account_pk = account.id OFFSET 0) AS booked
            CROSS JOIN LATERAL (
                SELECT end_date FROM line_item
                WHERE transaction_pk = booked.id AND units IS NOT NULL OFFSET 0) AS item))
"""
_COMPARED = f"""
    LEFT JOIN LATERAL (
        SELECT {_CREATED} AS created
        FROM account, LATERAL (
            SELECT max(last_billed_to_date) AS last_billed, count(*) AS number, sum(advance) AS advance
            FROM (SELECT id FROM supply_address WHERE account_pk = account.id OFFSET 0) AS address
            CROSS JOIN LATERAL (
                SELECT id, last_billed_to_date FROM meter_point
                WHERE supply_address_pk = address.id OFFSET 0) AS point
            LEFT JOIN LATERAL (
                SELECT id FROM agreement WHERE meter_point_pk = point.id
                ORDER BY effective_from > current_date, abs(effective_from - current_date) LIMIT 1
            ) AS agreed ON true
            LEFT JOIN LATERAL (
                SELECT total_monthly_advance_amount AS advance FROM monthly_advance_charge_template
                WHERE agreement_pk = agreed.id OFFSET 0) AS charged ON true) AS points
        WHERE account.import_supplier_id = :import_supplier_id
          AND account.external_account_number = figure.external_account_number OFFSET 0) AS made ON true
"""
_SELECTED = f"""
    figure.external_account_number, CAST(figure.figures AS text) AS figures, CAST(made.created AS text),
    EXISTS (SELECT FROM skip_mark
            WHERE import_supplier_id = :import_supplier_id
              AND external_account_number = figure.external_account_number OFFSET 0)
    OR EXISTS (SELECT FROM account_import_process
               WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.SKIPPED}'
                 AND external_account_number = figure.external_account_number OFFSET 0)
    OR EXISTS (SELECT FROM acknowledgement
               WHERE import_supplier_id = :import_supplier_id
                 AND external_account_number = figure.external_account_number OFFSET 0) AS is_excluded
"""

_PAGE = text(f"""
    SELECT figure.line_number AS place, {_SELECTED}
    FROM (SELECT * FROM old_figure
          WHERE import_supplier_id = :import_supplier_id AND line_number > :after
          ORDER BY line_number LIMIT :limit) AS figure {_COMPARED}
    ORDER BY place
""")

#: The same for the accounts on the lines of a batch. An account on two lines counts on the first.
_PAGE_OF_BATCH = text(f"""
    SELECT line.line_number AS place, {_SELECTED}
    FROM {PAGE_OF_LINES} AS line
    LEFT JOIN LATERAL (
        SELECT * FROM old_figure
        WHERE import_supplier_id = :import_supplier_id
          AND external_account_number = line.external_account_number OFFSET 0) AS figure ON true {_COMPARED}
    ORDER BY place
""").bindparams(bindparam("batch_id", type_=Uuid))
