"""Sending lines in single requests, several at the same time."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from migration_payloads.errors import (
    ConflictingLinesError,
    DuplicateLineError,
    ImportSupplierMismatchError,
    LineTooLongError,
    ParseError,
)
from migration_payloads.files.account_numbers import find_number
from migration_payloads.files.ndjson import Line
from migration_payloads.normal_form import digest_line
from migration_payloads.schemas.json import parse_json
from migration_service_client import AsyncClient, ServiceError, codes, idempotency_key
from migration_service_client.command.journal import Record

#: What is wrong with the supplier, the team or the quota, and not with a line: the rest would fail, too.
_STOPS = (
    codes.ImportSupplierPaused,
    codes.ImportSupplierComplete,
    codes.OperationsTeamNotFound,
    codes.StagedQuotaReached,
)
_OF_A_LINE = frozenset({400, 404, 413})


@dataclass(frozen=True, slots=True)
class Payload:
    """A line with what it has, or None if it is no JSON object: the service says what is wrong with it."""

    line: Line
    members: dict[str, Any] | None
    #: Why the line is refused here already, if it is.
    errors: list[Record] | None

    @classmethod
    def read(cls, line: Line, errors: list[Record] | None = None) -> "Payload":
        """Return the payload of a line. `errors` are those for which it is refused here."""
        try:
            members = parse_json(line.text or b"")
        except ParseError:
            members = None
        return cls(line, members if isinstance(members, dict) else None, errors)

    @property
    def account(self) -> str | None:
        """Return the number of its account, if it has one."""
        return find_number(self.line.text or b"")


@dataclass(frozen=True, slots=True)
class LineSender:
    """Sends lines of one run."""

    client: AsyncClient
    mode: str
    supplier: str
    book: str
    team: str | None
    profile: str | None
    extracted_at: str | None
    #: Whether the run was interrupted, so that it may have created accounts that are not noted.
    goes_on: bool

    async def send_all(
        self, payloads: Iterable[Payload], parallel: int, done: Callable[[Record], None]
    ) -> None:
        """Send all lines, so many at the same time. `done` is called with the record of each.

        Lines of one account are sent one after the other. Raise the error that concerns all lines: those that
        are on their way then are given up, and are sent again with the same keys.
        """
        waiting: dict[asyncio.Task[Record], str | None] = {}
        try:
            for payload in payloads:
                while len(waiting) >= parallel or (payload.account and payload.account in waiting.values()):
                    await _take(waiting, done)
                waiting[asyncio.create_task(self._send(payload))] = payload.account
            while waiting:
                await _take(waiting, done)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _send(self, payload: Payload) -> Record:
        record: Record = {"line_number": payload.line.number, "external_account_number": payload.account}
        if payload.errors:
            return record | {"status": "FAILED", "errors": payload.errors}
        if payload.line.text is None:
            return record | {"status": "FAILED", "errors": _found(LineTooLongError().errors)}
        named = (payload.members or {}).get("import_supplier", self.supplier)
        if named != self.supplier:
            differs = ImportSupplierMismatchError(found=named, expected=self.supplier)
            return record | {"status": "FAILED", "errors": _found(differs.errors)}
        try:
            return record | await self._outcome(payload, payload.line.text)
        except ServiceError as error:
            if isinstance(error, _STOPS) or error.status not in _OF_A_LINE:
                raise
            return record | _refused(error)

    async def _outcome(self, payload: Payload, text: bytes) -> Record:
        if self.mode == "validate":
            validated = await self.client.validate_account(text, profile=self.profile)
            return {"status": "VALID", "warnings": _found(validated.warnings)}
        if self.mode == "stage" or payload.members is None:
            staged = await self.client.stage_account(text, extracted_at=self.extracted_at)
            return {"status": "STAGED", "warnings": _found(staged.warnings)}
        warnings: list[Record] = []
        exists: codes.AccountAlreadyImported | None = None
        try:
            staged = await self.client.stage_account(text, extracted_at=self.extracted_at)
            warnings = _found(staged.warnings)
        except codes.AccountAlreadyImported as error:
            if not self.goes_on:
                return _refused(error)
            exists = error
        try:
            # One that this run has created before it was interrupted is answered as it was then.
            created = await self.client.process_account(
                external_account_number=payload.account or "",
                import_supplier_code=self.supplier,
                operations_team_name=self.team or "",
                idempotency_key=idempotency_key(self.book, payload.line.number, text),
            )
        except codes.AccountAlreadyImported as error:
            return _refused(exists or error)
        number = created.service_account_number
        return {"status": "IMPORTED", "service_account_number": number, "warnings": warnings}


def find_repeated(lines: Iterable[Line]) -> dict[int, list[Record]]:
    """Return the errors of lines whose account another line has, which a batch would refuse as well."""
    places: dict[str, list[tuple[int, bytes]]] = {}
    for line in lines:
        number = find_number(line.text or b"")
        if number is not None:
            places.setdefault(number, []).append((line.number, digest_line(line.text or b"")))
    repeated: dict[int, list[Record]] = {}
    for (first, digest), *others in places.values():
        differ = any(it != digest for _, it in others)
        conflict = _found(ConflictingLinesError().errors) if differ else []
        repeated |= {line: [*conflict, *_found(DuplicateLineError().errors)] for line, _ in others}
        if differ:
            repeated[first] = conflict
    return repeated


async def _take(waiting: dict[asyncio.Task[Record], str | None], done: Callable[[Record], None]) -> None:
    """Wait until one of the requests has ended at least, and pass on what came of them."""
    ended, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        del waiting[task]
    # Before an error ends it all, what has come of the others is noted.
    for task in sorted(ended, key=lambda it: it.exception() is not None):
        done(task.result())


def _refused(error: ServiceError) -> Record:
    """Return what came of a line, in the words that a batch has for it."""
    if isinstance(error, codes.AccountAlreadyImported):
        return {
            "status": "ALREADY_IMPORTED",
            "service_account_number": error.service_account_number,
            "errors": _found(it for it in error.errors if it.code == error.code),
            "warnings": _found(it for it in error.errors if it.code != error.code),
        }
    status = "SKIPPED" if isinstance(error, codes.AccountMarkedToSkip) else "FAILED"
    return {"status": status, "errors": _found(error.errors)}


def _found(errors: Iterable[Any]) -> list[Record]:
    return [{"code": it.code, "attr": it.attr, "detail": it.detail} for it in errors]
