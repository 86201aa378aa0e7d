"""What clients were answered, compared with what the database has.

After a failover to a standby that was behind, or a restore to an earlier moment, the database lacks what only
the old primary had committed. Access logs and journals of clients still have the answers.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import UndoOutcome

_STAGE = "/account-import-process/create-or-update/"
#: Requests that write nothing, and logins, which are repeated without anybody's help.
_WITHOUT_ROWS = ("/validate-account/", "/undos/preview/", "/v1/graphql/")
_WRITING = ("POST", "PUT", "PATCH", "DELETE")
#: An idempotent request that was answered again leaves nothing under its own id.
_UNCHANGED = "UNCHANGED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that acknowledged something. What the source does not say is an empty text."""

    at: str
    method: str
    #: The route as in the access log, or the path.
    route: str
    status: int
    request_id: str
    #: Only a client's journal has these: the account, and the number that the client was told.
    import_supplier: str
    external_account_number: str
    service_account_number: str


@dataclass(frozen=True, slots=True)
class LostAnswer:
    """An answer whose effect the database does not have, and what it has instead."""

    answer: Answer
    acknowledged: str
    found: str


def read_answers(lines: Iterable[str]) -> Iterator[Answer]:
    """Yield the acknowledgements in an access log (JSON), or in a journal with the same members and more."""
    for line in lines:
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if not isinstance(values, dict) or not isinstance(values.get("status"), int):
            continue
        answer = _answer(values)
        if answer.service_account_number or (_has_rows(answer) and values.get("result") != _UNCHANGED):
            yield answer


def _has_rows(answer: Answer) -> bool:
    """Return True if the request left rows with its id."""
    writes = answer.method in _WRITING and not answer.route.endswith(_WITHOUT_ROWS)
    return writes and 200 <= answer.status < 300 and bool(answer.request_id)


def _answer(values: dict[str, Any]) -> Answer:
    def said(name: str) -> str:
        return str(values.get(name) or "")

    return Answer(
        at=said("timestamp"),
        method=said("method"),
        route=said("route").partition("?")[0],
        status=values["status"],
        request_id=said("request_id"),
        import_supplier=said("import_supplier"),
        external_account_number=said("external_account_number"),
        service_account_number=said("service_account_number"),
    )


def find_lost_answers(session: Session, answers: Iterable[Answer]) -> list[LostAnswer]:
    """Return the acknowledgements that the database does not have, oldest first.

    There is one for each account, or request without one. A staging of which only the id is known
    may have been replaced by a later one, and is not reported.
    """
    known = sorted(answers, key=lambda answer: answer.at)
    lost = {it.answer: it for it in (*_find_requests(session, known), *_find_accounts(session, known))}
    seen: dict[tuple[str, str], LostAnswer] = {}
    for answer in known:
        if answer in lost:
            # The last word about an account. Requests without one are all different.
            account = (answer.import_supplier, answer.external_account_number)
            key = account if answer.external_account_number else ("", answer.request_id)
            seen[key] = lost[answer]
    return sorted(seen.values(), key=lambda it: it.answer.at)


def _find_accounts(session: Session, answers: list[Answer]) -> Iterator[LostAnswer]:
    """Compare the last number that a client was told of each account, and its stagings."""
    told: dict[tuple[str, str], Answer] = {}
    staged: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        account = (answer.import_supplier, answer.external_account_number)
        if answer.service_account_number:
            told[account] = answer
        elif answer.external_account_number and answer.route.endswith(_STAGE):
            staged.setdefault(account, []).append(answer)
    accounts = list(dict.fromkeys([*told, *staged]))
    values = {
        "suppliers": [supplier for supplier, _ in accounts],
        "numbers": [number for _, number in accounts],
        "told": [told[it].service_account_number if it in told else None for it in accounts],
    }
    for row in session.execute(_ACCOUNTS, values):
        account = (row.supplier, row.number)
        found = _describe(row)
        if account in told and row.told != row.has and not row.was_reverted:
            yield LostAnswer(told[account], f"created as {row.told}", found)
        versions = staged.get(account, [])
        earlier = {it.request_id for it in versions[:-1]}
        if versions and (row.state is None or row.staged_request_id in earlier):
            yield LostAnswer(versions[-1], "staged", found if row.state is None else "an earlier version")


def _describe(row: Any) -> str:
    if row.state is None:
        return "no such account"
    return f"the account, created as {row.has}" if row.has else f"the account, {row.state}"


def _find_requests(session: Session, answers: list[Answer]) -> Iterator[LostAnswer]:
    """Look for the rows of each request, which have its id."""
    # If both a log and a journal have a request, the journal tells its account.
    asked = {
        answer.request_id: answer
        for answer in sorted(answers, key=lambda answer: bool(answer.external_account_number))
        if _has_rows(answer) and not answer.route.endswith(_STAGE)
    }
    for (request_id,) in session.execute(_REQUESTS, {"ids": list(asked)}):
        answer = asked[request_id]
        yield LostAnswer(answer, f"{answer.route} answered {answer.status}", "nothing of this request")


_ACCOUNTS = text(f"""
    SELECT sent.supplier, sent.number, sent.told, process.state, process.staged_request_id,
           process.service_account_number AS has,
           EXISTS (SELECT FROM undo_line AS line
                   WHERE line.account_import_process_id = process.id
                     AND line.outcome = '{UndoOutcome.REVERTED}'
                     AND line.service_account_number = sent.told) AS was_reverted
    FROM unnest(CAST(:suppliers AS text[]), CAST(:numbers AS text[]), CAST(:told AS text[]))
         AS sent (supplier, number, told)
    LEFT JOIN import_supplier AS supplier ON supplier.code = sent.supplier
    LEFT JOIN account_import_process AS process
         ON process.import_supplier_id = supplier.id AND process.external_account_number = sent.number
""")

_WRITTEN = ("attempt", "batch", "undo", "note", '"transaction"', "statement", "payment_instruction")
_REQUESTS = text(f"""
    SELECT asked.id FROM unnest(CAST(:ids AS text[])) AS asked (id)
    EXCEPT
    SELECT request_id FROM (
        {" UNION ALL ".join(f"SELECT request_id FROM {table}" for table in (*_WRITTEN, "audit_entry"))}
    ) AS written WHERE request_id = ANY (CAST(:ids AS text[]))
""")
