"""Pages to find an account, and to see its process, attempts, data and history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flask import Blueprint, abort, redirect, render_template, request, url_for
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_service.blueprints.console.access import supplier_of, visible
from migration_service.blueprints.console.acting import Act, ReasonForm, add_acts
from migration_service.blueprints.console.languages import mark
from migration_service.blueprints.console.masking import is_revealed, mask, mask_differences, reveal
from migration_service.blueprints.console.payload_view import view_payload
from migration_service.blueprints.console.remedies import find_codes, remedy_of
from migration_service.blueprints.requests.resources import resources
from migration_service.db.sql import OpenTransaction
from migration_service.models import Account, AccountImportProcess, Wave
from migration_service.services.accounts.ownership import has_gone_live
from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import list_entries_about
from migration_service.services.batches.results.findings import list_lines_of_account
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.services.imports.status import find_process
from migration_service.services.reconciliation.created_accounts import compare_account
from migration_service.services.reporting.account_history import list_events
from migration_service.services.reporting.attempts import read_attempts
from migration_service.services.reporting.search import find_accounts, find_work
from migration_service.services.setup.suppliers import KnownSupplier, list_import_suppliers
from migration_service.services.setup.teams import get_operations_team_name
from migration_service.states import BatchKind, LineStatus, Outcome

blueprint = Blueprint("accounts", __name__)

#: The most suppliers, and codes, that a search lists.
_MOST = 20
#: The tabs of an account. The first one is shown if none is chosen.
_TABS = ("history", "meter-points", "ledgers", "statements", "notes", "data")


@blueprint.get("/accounts/")
def search() -> str | Response:
    """Find accounts by either number or by a meter point, and suppliers, batches, plans and error codes."""
    wanted = request.args.get("q", "").strip()
    accounts: Sequence[Any] = ()
    work: Sequence[Any] = ()
    suppliers, codes = [], []
    if wanted:
        with resources().Session.begin() as session:
            known = visible(list_import_suppliers(session))
            ids = [supplier.id for supplier, _owner in known]
            accounts = find_accounts(session, wanted, import_supplier_ids=ids)
            work = find_work(session, wanted, import_supplier_ids=ids)
        lower = wanted.casefold()
        suppliers = [it for it in known if lower in f"{it[0].code} {it[1]}".casefold()][:_MOST]
        codes = [code for code in find_codes() if lower.replace(" ", "_") in code][:_MOST]
    if len(accounts) == 1 and not (work or suppliers or codes):
        account = accounts[0]
        return redirect(
            url_for("accounts.show", code=account.import_supplier, number=account.external_account_number)
        )
    return render_template(
        "search.html",
        wanted=wanted,
        found=accounts,
        work=work,
        suppliers=suppliers,
        codes=codes,
        remedy_of=remedy_of,
    )


@blueprint.get("/suppliers/<code>/accounts/<number:number>/")
def show(code: str, number: str) -> str:
    """Show what happened to an account, and its data."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
        process = find_process(session, supplier.id, number)
        lines = list_lines_of_account(session, supplier.id, number)
        known = storing.find(OpenTransaction.of(session), supplier.id, [number]).get(number)
        is_marked = known is not None and not known.id
        if process is None and not lines and not is_marked:
            abort(404)
        account = find_account(session, supplier.id, number) if process else None
        data = read_account(session, account) if account else None
        if process and not account:
            data = session.scalar(select(AccountImportProcess.payload).filter_by(id=process.id))
        team = get_operations_team_name(session, account.operations_team_id) if account else None
        story = _list_moments(session, process, account, lines, subject=f"{code} {number}")
        compared = compare_account(session, process.id) if process and account else None
        is_live = has_gone_live(session, supplier.id)
        batches = [it["batch_id"] for it in lines]
        wave = session.scalar(select(Wave).where(Wave.batch_id.in_(batches)).order_by(Wave.batch_id.desc()))
    is_shown = is_revealed(_subject(code, number))
    data = data if data is None or is_shown else mask(data)
    tab = request.args.get("tab") if data else None
    return render_template(
        "account.html",
        supplier=supplier,
        number=number,
        process=process,
        team=team,
        wave=wave,
        is_live=is_live,
        is_marked=is_marked,
        story=story,
        failed_line=_find_failed(process, lines),
        compared=compared if is_shown or not compared else mask_differences(compared),
        tab=tab if tab in _TABS else _TABS[0],
        data=data,
        payload_tree=view_payload(data, []) if data and tab == "data" else None,
        is_shown=is_shown,
        remedy_of=remedy_of,
    )


@blueprint.post("/suppliers/<code>/accounts/<number:number>/reveal/")
def show_personal_data(code: str, number: str) -> Response:
    """Show the personal data of an account for some minutes, and record it in the audit."""
    with resources().Session.begin() as session:
        supplier = supplier_of(session, code)
        process = find_process(session, supplier.id, number)
        if process is None:
            abort(404)
        owner = supplier.organisation_id
        record(session, AuditAction.ACCOUNT_READ, "account", process.id, organisation_id=owner)
    reveal(_subject(code, number))
    return redirect(url_for("accounts.show", code=code, number=number), 303)


_ACTS = [
    Act[KnownSupplier](
        name="skip",
        form=ReasonForm,
        title=mark("Skip account %(number)s"),
        sentence=mark("One account will be neither staged nor created, until it is put back."),
        button=mark("Skip the account"),
        done=mark("Account %(number)s is skipped."),
        do=lambda session, code, number, reason: skip_accounts(
            session, supplier_of(session, code).id, [number], reason=reason
        ),
    ),
    Act[KnownSupplier](
        name="unskip",
        title=mark("Put back account %(number)s"),
        sentence=mark("One account can be staged and created again."),
        button=mark("Put the account back"),
        done=mark("Account %(number)s is put back."),
        do=lambda session, code, number: unskip_accounts(session, supplier_of(session, code).id, [number]),
    ),
]
add_acts(
    blueprint,
    "/suppliers/<code>/accounts/<number:number>/",
    _ACTS,
    show=lambda session, code, number: supplier_of(session, code),
    back=lambda code, number: url_for("accounts.show", code=code, number=number),
)


def _find_failed(process: AccountImportProcess | None, lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the newest line if it failed, unless the account exists now."""
    if not lines or lines[0]["status"] != LineStatus.FAILED:
        return None
    is_created = process is not None and process.account_created_at is not None
    return None if is_created and lines[0]["kind"] == BatchKind.ACCOUNTS else lines[0]


def _subject(code: str, number: str) -> str:
    return f"account {code} {number}"


@dataclass(frozen=True, slots=True)
class _Moment:
    """One event. Its kind tells the template what `told` is."""

    at: datetime
    kind: str
    told: Any


def _list_moments(
    session: Session,
    process: AccountImportProcess | None,
    account: Account | None,
    lines: Sequence[Mapping[str, Any]],
    *,
    subject: str,
) -> list[_Moment]:
    """Return the timeline of an account, newest first. `subject` is its name in the audit."""
    # Events of the same moment are in this order, the last first.
    moments: list[_Moment] = []
    if process is not None:
        attempts = read_attempts(session, process.id)
        # An account that was created more than once was undone in between.
        created = sum(it.outcome == Outcome.SUCCEEDED and not it.dry_run for it in attempts)
        was_undone = created > (account is not None)
        events = list_events(session, process.id, account.id if account else None, was_undone=was_undone)
        moments += [_Moment(event.at, event.kind, event) for event in events]
        if process.account_created_at is not None:
            moments.append(_Moment(process.account_created_at, "created", process))
        moments += [_Moment(attempt.created_at, "attempt", attempt) for attempt in reversed(attempts)]
        moments.append(_Moment(process.staged_at, "staged", process))
    ids = [subject] if process is None else [subject, str(process.id)]
    entries = list_entries_about(session, "account", ids)
    moments += [_Moment(entry["at"], "audit", entry) for entry in entries]
    moments += [_Moment(line["created_at"], "line", line) for line in lines]
    return sorted(moments, key=lambda it: it.at, reverse=True)
