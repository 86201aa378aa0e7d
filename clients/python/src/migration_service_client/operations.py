"""The requests of the interface, as data. `Client` and `AsyncClient` send them: each function
is a method of theirs.

Written by `make docs` from the description of the interface; do not edit it by hand.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from migration_service_client import models
from migration_service_client.calls import Call, Each
from migration_service_client.requests import (
    ABSENT,
    Absent,
    Json,
    Lines,
    Pages,
    Request,
    members,
    target,
)
from migration_service_client.uploads import Progress, Source, Upload


def validate_account(
    account: models.AccountImport | Json | bytes | str, *, profile: str | None = None
) -> Request[models.ValidationReport]:
    """Check an account payload without storing it."""
    return Request(
        *target("validate_account", "POST validate-account/"),
        models.ValidationReport,
        query={"profile": profile, "report": "full"},
        body=account,
    )


def stage_account(
    account: models.AccountImport | Json | bytes | str, *, extracted_at: datetime | str | None = None
) -> Request[models.StagingReport]:
    """Store an account payload, as often as needed until the account is created."""
    return Request(
        *target("stage_account", "POST account-import-process/create-or-update/"),
        models.StagingReport,
        query={"report": "full", "extracted_at": extracted_at},
        body=account,
    )


def process_account(
    *,
    external_account_number: str,
    import_supplier_code: str,
    operations_team_name: str,
    prefer: str | None = None,
    idempotency_key: str | None = None,
    dry_run: bool | Absent = ABSENT,
) -> Request[models.CreatedAccount]:
    """Create the account from its staged data."""
    return Request(
        *target("process_account", "POST account-import-process/process/"),
        models.CreatedAccount,
        headers={"Prefer": prefer, "Idempotency-Key": idempotency_key},
        body=members(
            external_account_number=external_account_number,
            import_supplier_code=import_supplier_code,
            operations_team_name=operations_team_name,
            dry_run=dry_run,
        ),
        follow=True,
    )


def get_account_status(
    import_supplier_code: str, external_account_number: str
) -> Request[models.AccountStatus]:
    """Get the import status of an account."""
    return Request(
        *target(
            "get_account_status",
            "GET account-transfer-status/{}/{}/",
            import_supplier_code,
            external_account_number,
        ),
        models.AccountStatus,
    )


def get_account(import_supplier_code: str, external_account_number: str) -> Request[models.AccountHistory]:
    """Get everything that the service holds about an account."""
    return Request(
        *target("get_account", "GET accounts/{}/{}/", import_supplier_code, external_account_number),
        models.AccountHistory,
    )


def list_all_account_imports(
    import_supplier_code: str, *, limit: int | None = None, cursor: str | None = None
) -> Pages[models.ListedImport]:
    """List every account import of a supplier."""
    return Pages(
        *target("list_all_account_imports", "GET all-account-import-processes/{}/", import_supplier_code),
        models.ListedImport,
        query={"limit": limit, "cursor": cursor},
    )


def list_pending_account_imports(
    import_supplier_code: str, *, limit: int | None = None, cursor: str | None = None
) -> Pages[models.ListedImport]:
    """List the account imports that are staged and not created."""
    return Pages(
        *target(
            "list_pending_account_imports", "GET pending-account-import-processes/{}/", import_supplier_code
        ),
        models.ListedImport,
        query={"limit": limit, "cursor": cursor},
    )


def list_imported_account_imports(
    import_supplier_code: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    owner: str | None = None,
) -> Pages[models.ListedImport]:
    """List the account imports whose account has been created."""
    return Pages(
        *target(
            "list_imported_account_imports", "GET imported-account-import-processes/{}/", import_supplier_code
        ),
        models.ListedImport,
        query={"limit": limit, "cursor": cursor, "owner": owner},
    )


def list_failed_account_imports(
    import_supplier_code: str, *, limit: int | None = None, cursor: str | None = None
) -> Pages[models.FailedImport]:
    """List the accounts that are not created and whose last attempt failed."""
    return Pages(
        *target(
            "list_failed_account_imports", "GET failed-account-import-processes/{}/", import_supplier_code
        ),
        models.FailedImport,
        query={"limit": limit, "cursor": cursor},
    )


def get_attempt(attempt_id: str) -> Request[models.AttemptAnswer]:
    """Get an attempt to create an account."""
    return Request(
        *target("get_attempt", "GET account-import-attempts/{}/", attempt_id), models.AttemptAnswer
    )


def list_attempts(
    import_supplier_code: str,
    external_account_number: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
) -> Pages[models.AttemptAnswer]:
    """List the attempts to create an account, newest first."""
    return Pages(
        *target(
            "list_attempts",
            "GET account-import-attempts/{}/{}/",
            import_supplier_code,
            external_account_number,
        ),
        models.AttemptAnswer,
        query={"limit": limit, "cursor": cursor},
    )


def list_import_suppliers() -> Pages[models.ImportSupplierAnswer]:
    """List the organisation's import suppliers, by code."""
    return Pages(*target("list_import_suppliers", "GET import-suppliers/"), models.ImportSupplierAnswer)


def get_import_supplier(import_supplier_code: str) -> Request[models.ImportSupplierAnswer]:
    """Get an import supplier."""
    return Request(
        *target("get_import_supplier", "GET import-suppliers/{}/", import_supplier_code),
        models.ImportSupplierAnswer,
    )


def create_notes(
    *,
    import_supplier: str,
    external_account_number: str,
    notes: Sequence[models.Note | Json],
    idempotency_key: str | None = None,
    dry_run: bool | Absent = ABSENT,
) -> Request[models.NotesReport]:
    """Add notes to an account."""
    return Request(
        *target("create_notes", "POST notes/create/"),
        models.NotesReport,
        query={"report": "full"},
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_number=external_account_number,
            dry_run=dry_run,
            notes=notes,
        ),
    )


def create_transactions(
    *,
    import_supplier: str,
    external_account_number: str,
    transactions: Sequence[models.Transaction | Json],
    check_previously_added: bool | None = None,
    force_add_to_current_statement: bool | None = None,
    idempotency_key: str | None = None,
    dry_run: bool | Absent = ABSENT,
) -> Request[models.TransactionsReport]:
    """Add financial transactions to an account: all of them, or none."""
    return Request(
        *target("create_transactions", "POST transactions/create/"),
        models.TransactionsReport,
        query={
            "report": "full",
            "check_previously_added": check_previously_added,
            "force_add_to_current_statement": force_add_to_current_statement,
        },
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_number=external_account_number,
            dry_run=dry_run,
            transactions=transactions,
        ),
    )


def create_historical_statements(
    *,
    import_supplier: str,
    external_account_number: str,
    statements: Sequence[models.HistoricalStatement | Json],
    idempotency_key: str | None = None,
    dry_run: bool | Absent = ABSENT,
) -> Request[models.StatementsReport]:
    """Add statements from before the migration to an account."""
    return Request(
        *target("create_historical_statements", "POST historical-statements/create/"),
        models.StatementsReport,
        query={"report": "full"},
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_number=external_account_number,
            dry_run=dry_run,
            statements=statements,
        ),
    )


def create_payment_instruction(
    *,
    import_supplier: str,
    external_account_number: str,
    vendor: str,
    reference: str,
    type: str,
    idempotency_key: str | None = None,
    dry_run: bool | Absent = ABSENT,
) -> Request[models.PaymentInstructionReport]:
    """Add a payment instruction to an account, once its vendor has confirmed it."""
    return Request(
        *target("create_payment_instruction", "POST payment-instruction/create/"),
        models.PaymentInstructionReport,
        query={"report": "full"},
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_number=external_account_number,
            dry_run=dry_run,
            vendor=vendor,
            reference=reference,
            type=type,
        ),
    )


def start_batch(
    file: Source | None = None,
    *,
    import_supplier: str,
    mode: str,
    kind: str | None = None,
    operations_team_name: str | None = None,
    source: str | None = None,
    check_previously_added: bool | None = None,
    force_add_to_current_statement: bool | None = None,
    include_older_versions: bool | None = None,
    replace: str | None = None,
    name: str | None = None,
    file_name: str | None = None,
    profile: str | None = None,
    extracted_at: datetime | str | None = None,
    stop_after_errors: str | None = None,
    stop_min_lines: int | None = None,
    stop_window_lines: int | None = None,
    stop_ignore_codes: str | None = None,
    stop_count_warnings: str | None = None,
    idempotency_key: str | None = None,
    progress: Progress | None = None,
) -> Request[models.BatchProgressAnswer]:
    """Start a batch."""
    return Request(
        *target("start_batch", "POST batches/"),
        models.BatchProgressAnswer,
        query={
            "import_supplier": import_supplier,
            "kind": kind,
            "mode": mode,
            "operations_team_name": operations_team_name,
            "source": source,
            "check_previously_added": check_previously_added,
            "force_add_to_current_statement": force_add_to_current_statement,
            "include_older_versions": include_older_versions,
            "replace": replace,
            "name": name,
            "file_name": file_name,
            "profile": profile,
            "extracted_at": extracted_at,
            "stop_after_errors": stop_after_errors,
            "stop_min_lines": stop_min_lines,
            "stop_window_lines": stop_window_lines,
            "stop_ignore_codes": stop_ignore_codes,
            "stop_count_warnings": stop_count_warnings,
        },
        headers={"Idempotency-Key": idempotency_key},
        body=None if file is None else Upload(file, progress),
    )


def list_batches(
    *, import_supplier: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Pages[models.BatchAnswer]:
    """List the organisation's batches, newest first."""
    return Pages(
        *target("list_batches", "GET batches/"),
        models.BatchAnswer,
        query={"import_supplier": import_supplier, "limit": limit, "cursor": cursor},
    )


def get_batch(batch_id: str) -> Request[models.BatchProgressAnswer]:
    """Get the progress of a batch."""
    return Request(*target("get_batch", "GET batches/{}/", batch_id), models.BatchProgressAnswer)


def get_batch_results(
    batch_id: str,
    *,
    code: str | None = None,
    path: str | None = None,
    status: str | None = None,
    staging_result: str | None = None,
) -> Lines[models.LineResult]:
    """Get the result of each line, streamed."""
    return Lines(
        *target("get_batch_results", "GET batches/{}/results/", batch_id),
        models.LineResult,
        query={"code": code, "path": path, "status": status, "staging_result": staging_result},
        accept="application/x-ndjson",
    )


def get_failed_lines(batch_id: str, *, code: str | None = None, path: str | None = None) -> Lines[bytes]:
    """Get the failed lines as they were sent."""
    return Lines(
        *target("get_failed_lines", "GET batches/{}/failed-lines/", batch_id),
        bytes,
        query={"code": code, "path": path},
        accept="application/x-ndjson",
    )


def pause_batch(batch_id: str) -> Request[models.BatchProgressAnswer]:
    """Pause a batch."""
    return Request(*target("pause_batch", "POST batches/{}/pause/", batch_id), models.BatchProgressAnswer)


def resume_batch(batch_id: str) -> Request[models.BatchProgressAnswer]:
    """Resume a batch."""
    return Request(*target("resume_batch", "POST batches/{}/resume/", batch_id), models.BatchProgressAnswer)


def cancel_batch(batch_id: str) -> Request[models.BatchProgressAnswer]:
    """Cancel a batch."""
    return Request(*target("cancel_batch", "POST batches/{}/cancel/", batch_id), models.BatchProgressAnswer)


def set_batch_brake(
    batch_id: str,
    *,
    stop_after_errors: str,
    stop_min_lines: int | None = None,
    stop_window_lines: int | None = None,
    stop_ignore_codes: str | None = None,
    stop_count_warnings: str | None = None,
) -> Request[models.BatchProgressAnswer]:
    """Set the error threshold of a batch."""
    return Request(
        *target("set_batch_brake", "POST batches/{}/brake/", batch_id),
        models.BatchProgressAnswer,
        query={
            "stop_after_errors": stop_after_errors,
            "stop_min_lines": stop_min_lines,
            "stop_window_lines": stop_window_lines,
            "stop_ignore_codes": stop_ignore_codes,
            "stop_count_warnings": stop_count_warnings,
        },
    )


def retry_failed_lines(
    batch_id: str,
    *,
    code: str | None = None,
    path: str | None = None,
    all: bool | None = None,
    idempotency_key: str | None = None,
) -> Request[models.RetryAnswer]:
    """Retry the FAILED lines that may succeed now."""
    return Request(
        *target("retry_failed_lines", "POST batches/{}/retry-failed/", batch_id),
        models.RetryAnswer,
        query={"code": code, "path": path, "all": all},
        headers={"Idempotency-Key": idempotency_key},
    )


def compare_batches(batch_id: str, later_batch_id: str) -> Request[models.ComparisonAnswer]:
    """Compare two batches of one import supplier."""
    return Request(
        *target("compare_batches", "GET batches/{}/comparison/{}/", batch_id, later_batch_id),
        models.ComparisonAnswer,
    )


def get_changed_accounts(
    batch_id: str, later_batch_id: str, *, change: str | None = None
) -> Lines[models.ComparedAccountAnswer]:
    """List the accounts that fail in at least one of two batches, streamed."""
    return Lines(
        *target("get_changed_accounts", "GET batches/{}/comparison/{}/accounts/", batch_id, later_batch_id),
        models.ComparedAccountAnswer,
        query={"change": change},
        accept="application/x-ndjson",
    )


def get_control_totals(batch_id: str) -> Request[models.ControlTotalsAnswer]:
    """Get the totals of a batch's file."""
    return Request(
        *target("get_control_totals", "GET batches/{}/control-totals/", batch_id), models.ControlTotalsAnswer
    )


def set_control_totals(
    batch_id: str,
    *,
    accounts: int | Absent = ABSENT,
    ledger_balances: dict[str, Decimal | int | float | str] | Absent = ABSENT,
    transactions: models.TransactionTotals | Json | Absent = ABSENT,
    statements: int | Absent = ABSENT,
) -> Request[models.ControlTotalsAnswer]:
    """Set the control totals of a batch."""
    return Request(
        *target("set_control_totals", "PUT batches/{}/control-totals/", batch_id),
        models.ControlTotalsAnswer,
        body=members(
            accounts=accounts,
            ledger_balances=ledger_balances,
            transactions=transactions,
            statements=statements,
        ),
    )


def check_readiness(
    import_supplier_code: str, *, ready_for: str | None = None
) -> Request[models.ReadinessAnswer]:
    """Check whether a supplier is ready for its next wave, or for go-live."""
    return Request(
        *target("check_readiness", "GET import-suppliers/{}/ready/", import_supplier_code),
        models.ReadinessAnswer,
        query={"ready_for": ready_for},
    )


def accept_warning(
    import_supplier_code: str,
    *,
    check: str,
    reason: str,
    by: str | Absent = ABSENT,
    ready_for: str | Absent = ABSENT,
) -> Request[models.CheckAnswer]:
    """Accept the warning of a check."""
    return Request(
        *target("accept_warning", "POST import-suppliers/{}/ready/acceptances/", import_supplier_code),
        models.CheckAnswer,
        body=members(check=check, reason=reason, by=by, ready_for=ready_for),
    )


def reconcile_import_supplier(
    import_supplier_code: str,
    *,
    batch: str | None = None,
    comparison: str | None = None,
    full: bool | None = None,
) -> Request[models.ReconciliationAnswer]:
    """Compare what was sent with what was created, account by account."""
    return Request(
        *target("reconcile_import_supplier", "GET reconciliation/{}/", import_supplier_code),
        models.ReconciliationAnswer,
        query={"batch": batch, "comparison": comparison, "full": full},
    )


def acknowledge_open(
    import_supplier_code: str,
    *,
    reason: str,
    by: str | Absent = ABSENT,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    line_numbers: Sequence[int] | Absent = ABSENT,
) -> Request[models.AcknowledgedAnswer]:
    """Acknowledge refused accounts or lines that will not be migrated."""
    return Request(
        *target("acknowledge_open", "POST reconciliation/{}/acknowledgements/", import_supplier_code),
        models.AcknowledgedAnswer,
        body=members(
            reason=reason,
            by=by,
            external_account_numbers=external_account_numbers,
            batch=batch,
            line_numbers=line_numbers,
        ),
    )


def get_acknowledgements(import_supplier_code: str) -> Pages[models.AcknowledgementAnswer]:
    """List acknowledgements, newest first."""
    return Pages(
        *target("get_acknowledgements", "GET reconciliation/{}/acknowledgements/", import_supplier_code),
        models.AcknowledgementAnswer,
    )


def get_receipt(import_supplier_code: str, *, batch: str | None = None) -> Request[models.ReceiptAnswer]:
    """Get the receipt of a supplier or a batch."""
    return Request(
        *target("get_receipt", "GET reconciliation/{}/receipt/", import_supplier_code),
        models.ReceiptAnswer,
        query={"batch": batch},
    )


def accept_exception(
    import_supplier_code: str,
    *,
    problem: str,
    reason: str,
    external_account_number: str | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    by: str | Absent = ABSENT,
) -> Request[models.ReceiptAnswer]:
    """Accept something that is open in a receipt."""
    return Request(
        *target("accept_exception", "POST reconciliation/{}/receipt/exceptions/", import_supplier_code),
        models.ReceiptAnswer,
        body=members(
            problem=problem,
            external_account_number=external_account_number,
            batch=batch,
            reason=reason,
            by=by,
        ),
    )


def get_id_map(import_supplier_code: str) -> Lines[dict[str, str]]:
    """List the external and the new number of every created account."""
    return Lines(
        *target("get_id_map", "GET reconciliation/{}/id-map/", import_supplier_code),
        dict[str, str],
        accept="text/csv",
    )


def set_old_figures(
    import_supplier_code: str,
    file: Source | None = None,
    *,
    tolerance: Decimal | int | float | None = None,
    tolerance_days: int | None = None,
    file_name: str | None = None,
    progress: Progress | None = None,
) -> Request[models.OldFiguresAnswer]:
    """Send the old system's figures of each account."""
    return Request(
        *target("set_old_figures", "PUT reconciliation/{}/old-figures/", import_supplier_code),
        models.OldFiguresAnswer,
        query={"tolerance": tolerance, "tolerance_days": tolerance_days, "file_name": file_name},
        body=None if file is None else Upload(file, progress),
    )


def get_old_figures(
    import_supplier_code: str, *, batch: str | None = None
) -> Request[models.OldFiguresAnswer]:
    """Get how the old system's figures compare with the created accounts."""
    return Request(
        *target("get_old_figures", "GET reconciliation/{}/old-figures/", import_supplier_code),
        models.OldFiguresAnswer,
        query={"batch": batch},
    )


def list_old_figure_differences(
    import_supplier_code: str,
    *,
    batch: str | None = None,
    bucket: str | None = None,
    figure: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Pages[models.FigureDifferenceAnswer]:
    """List the figures that differ, account by account."""
    return Pages(
        *target(
            "list_old_figure_differences",
            "GET reconciliation/{}/old-figures/differences/",
            import_supplier_code,
        ),
        models.FigureDifferenceAnswer,
        query={"batch": batch, "bucket": bucket, "figure": figure, "limit": limit, "cursor": cursor},
    )


def erase_account(
    *, import_supplier: str, external_account_number: str, reason: str, by: str | Absent = ABSENT
) -> Request[models.ErasureAnswer]:
    """Erase the personal data of an account permanently."""
    return Request(
        *target("erase_account", "POST account-import-process/erase/"),
        models.ErasureAnswer,
        body=members(
            import_supplier=import_supplier,
            external_account_number=external_account_number,
            reason=reason,
            by=by,
        ),
    )


def skip_accounts(
    *, import_supplier: str, external_account_numbers: Sequence[str], reason: str, by: str | Absent = ABSENT
) -> Request[models.SkippedAnswer]:
    """Skip accounts that will not be migrated."""
    return Request(
        *target("skip_accounts", "POST account-import-process/skip/"),
        models.SkippedAnswer,
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            reason=reason,
            by=by,
        ),
    )


def list_events(
    *,
    cursor: str | None = None,
    consumer: str | None = None,
    type: str | None = None,
    import_supplier_code: str | None = None,
    limit: int | None = None,
) -> Pages[models.FeedEvent]:
    """List what happened since a position, oldest first."""
    return Pages(
        *target("list_events", "GET events/"),
        models.FeedEvent,
        query={
            "cursor": cursor,
            "consumer": consumer,
            "type": type,
            "import_supplier_code": import_supplier_code,
            "limit": limit,
        },
    )


def list_event_consumers() -> Pages[models.EventConsumerAnswer]:
    """List the organisation's named consumers of events."""
    return Pages(*target("list_event_consumers", "GET events/consumers/"), models.EventConsumerAnswer)


def forget_event_consumer(name: str) -> Request[models.EventConsumerAnswer]:
    """Forget a named consumer of events."""
    return Request(
        *target("forget_event_consumer", "POST events/consumers/{}/forget/", name), models.EventConsumerAnswer
    )


def list_sessions(*, limit: int | None = None, cursor: str | None = None) -> Pages[models.SessionAnswer]:
    """List the organisation's active sessions, newest first."""
    return Pages(
        *target("list_sessions", "GET sessions/"),
        models.SessionAnswer,
        query={"limit": limit, "cursor": cursor},
    )


def end_session(session_id: str) -> Request[models.SessionAnswer]:
    """End a session and revoke its tokens."""
    return Request(*target("end_session", "POST sessions/{}/end/", session_id), models.SessionAnswer)


def get_api_key() -> Request[models.ApiKeyAnswer]:
    """Get your API key, and what holds for it."""
    return Request(*target("get_api_key", "GET api-key/"), models.ApiKeyAnswer)


def preview_replacement(
    *,
    import_supplier: str,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
) -> Request[models.ReplacementPreviewAnswer]:
    """Preview a replacement."""
    return Request(
        *target("preview_replacement", "POST replacements/preview/"),
        models.ReplacementPreviewAnswer,
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            batch=batch,
            wave=wave,
        ),
    )


def start_replacement(
    *,
    import_supplier: str,
    reason: str,
    idempotency_key: str | None = None,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
    by: str | Absent = ABSENT,
    operations_team_name: str | Absent = ABSENT,
) -> Request[models.BatchProgressAnswer]:
    """Start a replacement."""
    return Request(
        *target("start_replacement", "POST replacements/"),
        models.BatchProgressAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            batch=batch,
            wave=wave,
            reason=reason,
            by=by,
            operations_team_name=operations_team_name,
        ),
    )


def preview_undo(
    *,
    import_supplier: str,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
) -> Request[models.UndoPreviewAnswer]:
    """Preview an undo."""
    return Request(
        *target("preview_undo", "POST undos/preview/"),
        models.UndoPreviewAnswer,
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            batch=batch,
            wave=wave,
        ),
    )


def start_undo(
    *,
    import_supplier: str,
    reason: str,
    idempotency_key: str | None = None,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
    by: str | Absent = ABSENT,
    overrides: Sequence[str] | Absent = ABSENT,
) -> Request[models.UndoProgressAnswer]:
    """Start an undo."""
    return Request(
        *target("start_undo", "POST undos/"),
        models.UndoProgressAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            batch=batch,
            wave=wave,
            reason=reason,
            by=by,
            overrides=overrides,
        ),
    )


def list_undos(
    *, import_supplier: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Pages[models.UndoAnswer]:
    """List the organisation's undos, newest first."""
    return Pages(
        *target("list_undos", "GET undos/"),
        models.UndoAnswer,
        query={"import_supplier": import_supplier, "limit": limit, "cursor": cursor},
    )


def get_undo(undo_id: str) -> Request[models.UndoProgressAnswer]:
    """Get the progress of an undo."""
    return Request(*target("get_undo", "GET undos/{}/", undo_id), models.UndoProgressAnswer)


def get_undo_results(undo_id: str, *, outcome: str | None = None) -> Lines[models.UndoOutcomeAnswer]:
    """Get the outcome of each account, streamed."""
    return Lines(
        *target("get_undo_results", "GET undos/{}/results/", undo_id),
        models.UndoOutcomeAnswer,
        query={"outcome": outcome},
        accept="application/x-ndjson",
    )


def cancel_undo(undo_id: str) -> Request[models.UndoProgressAnswer]:
    """Cancel an undo."""
    return Request(*target("cancel_undo", "POST undos/{}/cancel/", undo_id), models.UndoProgressAnswer)


def preview_go_live(
    *,
    import_supplier: str,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
    at: str | Absent = ABSENT,
) -> Request[models.GoLivePreviewAnswer]:
    """Preview a go-live."""
    return Request(
        *target("preview_go_live", "POST go-lives/preview/"),
        models.GoLivePreviewAnswer,
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            batch=batch,
            wave=wave,
            at=at,
        ),
    )


def start_go_live(
    *,
    import_supplier: str,
    idempotency_key: str | None = None,
    external_account_numbers: Sequence[str] | Absent = ABSENT,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
    at: str | Absent = ABSENT,
    by: str | Absent = ABSENT,
) -> Request[models.GoLiveAnswer]:
    """Let accounts go live."""
    return Request(
        *target("start_go_live", "POST go-lives/"),
        models.GoLiveAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            external_account_numbers=external_account_numbers,
            batch=batch,
            wave=wave,
            at=at,
            by=by,
        ),
    )


def list_go_lives(
    *, import_supplier: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Pages[models.GoLiveAnswer]:
    """List the organisation's go-lives, newest first."""
    return Pages(
        *target("list_go_lives", "GET go-lives/"),
        models.GoLiveAnswer,
        query={"import_supplier": import_supplier, "limit": limit, "cursor": cursor},
    )


def get_go_live(go_live_id: str) -> Request[models.GoLiveAnswer]:
    """Get the progress of a go-live."""
    return Request(*target("get_go_live", "GET go-lives/{}/", go_live_id), models.GoLiveAnswer)


def cancel_go_live(go_live_id: str) -> Request[models.GoLiveAnswer]:
    """Cancel a go-live."""
    return Request(*target("cancel_go_live", "POST go-lives/{}/cancel/", go_live_id), models.GoLiveAnswer)


def plan_waves(
    *,
    import_supplier: str,
    operations_team_name: str,
    waves: Sequence[models.WaveBody | Json],
    idempotency_key: str | None = None,
    name: str | Absent = ABSENT,
    seed: int | Absent = ABSENT,
    continue_if_clean: bool | Absent = ABSENT,
    include_older_versions: bool | Absent = ABSENT,
    window: models.Window | Json | Absent = ABSENT,
    lines_per_minute: int | Absent = ABSENT,
    brake: models.BrakeBody | Json | Absent = ABSENT,
) -> Request[models.WavePlanAnswer]:
    """Plan the waves of a supplier."""
    return Request(
        *target("plan_waves", "POST wave-plans/"),
        models.WavePlanAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            import_supplier=import_supplier,
            operations_team_name=operations_team_name,
            name=name,
            seed=seed,
            continue_if_clean=continue_if_clean,
            include_older_versions=include_older_versions,
            window=window,
            lines_per_minute=lines_per_minute,
            brake=brake,
            waves=waves,
        ),
    )


def list_plans(*, import_supplier: str | None = None) -> Pages[models.WavePlanAnswer]:
    """List the organisation's wave plans, newest first."""
    return Pages(
        *target("list_plans", "GET wave-plans/"),
        models.WavePlanAnswer,
        query={"import_supplier": import_supplier},
    )


def get_plan(plan_id: str) -> Request[models.WavePlanAnswer]:
    """Get a wave plan and the progress of its waves."""
    return Request(*target("get_plan", "GET wave-plans/{}/", plan_id), models.WavePlanAnswer)


def change_wave(
    plan_id: str,
    number: int,
    *,
    window: models.Window | Json | Absent | None = ABSENT,
    lines_per_minute: int | Absent | None = ABSENT,
    brake: models.BrakeBody | Json | Absent | None = ABSENT,
    continue_if_clean: bool | Absent | None = ABSENT,
    operations_team_name: str | Absent = ABSENT,
) -> Request[models.WavePlanAnswer]:
    """Change a wave that has not started."""
    return Request(
        *target("change_wave", "PATCH wave-plans/{}/waves/{}/", plan_id, number),
        models.WavePlanAnswer,
        body=members(
            window=window,
            lines_per_minute=lines_per_minute,
            brake=brake,
            continue_if_clean=continue_if_clean,
            operations_team_name=operations_team_name,
        ),
    )


def start_wave(plan_id: str, number: int) -> Request[models.WavePlanAnswer]:
    """Start a wave by hand."""
    return Request(
        *target("start_wave", "POST wave-plans/{}/waves/{}/start/", plan_id, number), models.WavePlanAnswer
    )


def pause_wave(plan_id: str, number: int) -> Request[models.WavePlanAnswer]:
    """Pause a wave until it is resumed by hand."""
    return Request(
        *target("pause_wave", "POST wave-plans/{}/waves/{}/pause/", plan_id, number), models.WavePlanAnswer
    )


def resume_wave(plan_id: str, number: int) -> Request[models.WavePlanAnswer]:
    """Resume a paused wave."""
    return Request(
        *target("resume_wave", "POST wave-plans/{}/waves/{}/resume/", plan_id, number), models.WavePlanAnswer
    )


def reconcile_wave(plan_id: str, number: int) -> Request[models.WavePlanAnswer]:
    """Reconcile a wave again."""
    return Request(
        *target("reconcile_wave", "POST wave-plans/{}/waves/{}/reconcile/", plan_id, number),
        models.WavePlanAnswer,
    )


def approve_wave(
    plan_id: str, number: int, *, reason: str, by: str | Absent = ABSENT
) -> Request[models.WavePlanAnswer]:
    """Approve a reconciled wave, so that the next one can start."""
    return Request(
        *target("approve_wave", "POST wave-plans/{}/waves/{}/approve/", plan_id, number),
        models.WavePlanAnswer,
        body=members(reason=reason, by=by),
    )


def stop_wave(
    plan_id: str, number: int, *, reason: str, by: str | Absent = ABSENT
) -> Request[models.WavePlanAnswer]:
    """Stop a wave and every later one."""
    return Request(
        *target("stop_wave", "POST wave-plans/{}/waves/{}/stop/", plan_id, number),
        models.WavePlanAnswer,
        body=members(reason=reason, by=by),
    )


def start_certificate(
    *,
    import_supplier: str,
    idempotency_key: str | None = None,
    batch: str | Absent = ABSENT,
    wave: models.UndoneWave | Json | Absent = ABSENT,
    by: str | Absent = ABSENT,
) -> Request[models.CertificateAnswer]:
    """Start a certificate."""
    return Request(
        *target("start_certificate", "POST certificates/"),
        models.CertificateAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(import_supplier=import_supplier, batch=batch, wave=wave, by=by),
    )


def list_certificates(
    *, import_supplier: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Pages[models.CertificateAnswer]:
    """List the organisation's certificates, newest first."""
    return Pages(
        *target("list_certificates", "GET certificates/"),
        models.CertificateAnswer,
        query={"import_supplier": import_supplier, "limit": limit, "cursor": cursor},
    )


def get_certificate(certificate_id: str) -> Request[models.CertificateAnswer]:
    """Get how far a certificate is."""
    return Request(
        *target("get_certificate", "GET certificates/{}/", certificate_id), models.CertificateAnswer
    )


def download_certificate(certificate_id: str) -> Lines[bytes]:
    """Get a certificate as a file, streamed."""
    return Lines(
        *target("download_certificate", "GET certificates/{}/file/", certificate_id),
        bytes,
        accept="application/x-ndjson",
    )


def prove_account(certificate_id: str, external_account_number: str) -> Lines[bytes]:
    """Get the proof that a certificate has an account."""
    return Lines(
        *target("prove_account", "GET certificates/{}/accounts/{}/", certificate_id, external_account_number),
        bytes,
        accept="application/x-ndjson",
    )


def create_webhook(
    *,
    url: str,
    idempotency_key: str | None = None,
    description: str | Absent = ABSENT,
    event_types: Sequence[str] | Absent | None = ABSENT,
    import_suppliers: Sequence[str] | Absent | None = ABSENT,
    enabled: bool | Absent = ABSENT,
) -> Request[models.NewWebhookAnswer]:
    """Create a webhook."""
    return Request(
        *target("create_webhook", "POST webhooks/"),
        models.NewWebhookAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(
            url=url,
            description=description,
            event_types=event_types,
            import_suppliers=import_suppliers,
            enabled=enabled,
        ),
    )


def list_webhooks() -> Pages[models.WebhookAnswer]:
    """List the organisation's webhooks."""
    return Pages(*target("list_webhooks", "GET webhooks/"), models.WebhookAnswer)


def get_webhook(webhook_id: str) -> Request[models.WebhookAnswer]:
    """Get a webhook."""
    return Request(*target("get_webhook", "GET webhooks/{}/", webhook_id), models.WebhookAnswer)


def change_webhook(
    webhook_id: str,
    *,
    url: str | Absent = ABSENT,
    description: str | Absent = ABSENT,
    event_types: Sequence[str] | Absent | None = ABSENT,
    import_suppliers: Sequence[str] | Absent | None = ABSENT,
    enabled: bool | Absent = ABSENT,
) -> Request[models.WebhookAnswer]:
    """Change a webhook, or switch it off or on."""
    return Request(
        *target("change_webhook", "PATCH webhooks/{}/", webhook_id),
        models.WebhookAnswer,
        body=members(
            url=url,
            description=description,
            event_types=event_types,
            import_suppliers=import_suppliers,
            enabled=enabled,
        ),
    )


def remove_webhook(webhook_id: str) -> Request[models.WebhookAnswer]:
    """Remove a webhook for ever."""
    return Request(*target("remove_webhook", "DELETE webhooks/{}/", webhook_id), models.WebhookAnswer)


def rotate_webhook_secret(
    webhook_id: str, *, idempotency_key: str | None = None, overlap_hours: int | Absent = ABSENT
) -> Request[models.NewSecretAnswer]:
    """Replace the secret of a webhook."""
    return Request(
        *target("rotate_webhook_secret", "POST webhooks/{}/secret/", webhook_id),
        models.NewSecretAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(overlap_hours=overlap_hours),
    )


def test_webhook(
    webhook_id: str, *, idempotency_key: str | None = None
) -> Request[models.WebhookDeliveryAnswer]:
    """Send a test event."""
    return Request(
        *target("test_webhook", "POST webhooks/{}/test/", webhook_id),
        models.WebhookDeliveryAnswer,
        headers={"Idempotency-Key": idempotency_key},
    )


def list_webhook_deliveries(
    webhook_id: str, *, state: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Pages[models.WebhookDeliveryAnswer]:
    """List the deliveries of a webhook, newest first."""
    return Pages(
        *target("list_webhook_deliveries", "GET webhooks/{}/deliveries/", webhook_id),
        models.WebhookDeliveryAnswer,
        query={"state": state, "limit": limit, "cursor": cursor},
    )


def get_webhook_delivery(webhook_id: str, delivery_number: int) -> Request[models.WebhookDeliveryAnswer]:
    """Get a delivery with all its attempts."""
    return Request(
        *target("get_webhook_delivery", "GET webhooks/{}/deliveries/{}/", webhook_id, delivery_number),
        models.WebhookDeliveryAnswer,
    )


def redeliver_webhook(
    webhook_id: str,
    *,
    idempotency_key: str | None = None,
    delivery_number: int | Absent = ABSENT,
    since: str | Absent = ABSENT,
    only_failed: bool | Absent = ABSENT,
) -> Request[models.RedeliveredAnswer]:
    """Send events again: one, all since a time, or all that have failed since."""
    return Request(
        *target("redeliver_webhook", "POST webhooks/{}/redeliver/", webhook_id),
        models.RedeliveredAnswer,
        headers={"Idempotency-Key": idempotency_key},
        body=members(delivery_number=delivery_number, since=since, only_failed=only_failed),
    )


def get_report(subject: str, *, wave: int | None = None) -> Lines[bytes]:
    """Get a report as one page that can be shared or printed."""
    return Lines(
        *target("get_report", "GET reports/{}/", subject), bytes, query={"wave": wave}, accept="text/html"
    )


class Operations:
    """The operations as methods."""

    validate_account = Call(validate_account)
    stage_account = Call(stage_account)
    process_account = Call(process_account)
    get_account_status = Call(get_account_status)
    get_account = Call(get_account)
    list_all_account_imports = Each(list_all_account_imports)
    list_pending_account_imports = Each(list_pending_account_imports)
    list_imported_account_imports = Each(list_imported_account_imports)
    list_failed_account_imports = Each(list_failed_account_imports)
    get_attempt = Call(get_attempt)
    list_attempts = Each(list_attempts)
    list_import_suppliers = Each(list_import_suppliers)
    get_import_supplier = Call(get_import_supplier)
    create_notes = Call(create_notes)
    create_transactions = Call(create_transactions)
    create_historical_statements = Call(create_historical_statements)
    create_payment_instruction = Call(create_payment_instruction)
    start_batch = Call(start_batch)
    list_batches = Each(list_batches)
    get_batch = Call(get_batch)
    get_batch_results = Each(get_batch_results)
    get_failed_lines = Each(get_failed_lines)
    pause_batch = Call(pause_batch)
    resume_batch = Call(resume_batch)
    cancel_batch = Call(cancel_batch)
    set_batch_brake = Call(set_batch_brake)
    retry_failed_lines = Call(retry_failed_lines)
    compare_batches = Call(compare_batches)
    get_changed_accounts = Each(get_changed_accounts)
    get_control_totals = Call(get_control_totals)
    set_control_totals = Call(set_control_totals)
    check_readiness = Call(check_readiness)
    accept_warning = Call(accept_warning)
    reconcile_import_supplier = Call(reconcile_import_supplier)
    acknowledge_open = Call(acknowledge_open)
    get_acknowledgements = Each(get_acknowledgements)
    get_receipt = Call(get_receipt)
    accept_exception = Call(accept_exception)
    get_id_map = Each(get_id_map)
    set_old_figures = Call(set_old_figures)
    get_old_figures = Call(get_old_figures)
    list_old_figure_differences = Each(list_old_figure_differences)
    erase_account = Call(erase_account)
    skip_accounts = Call(skip_accounts)
    list_events = Each(list_events)
    list_event_consumers = Each(list_event_consumers)
    forget_event_consumer = Call(forget_event_consumer)
    list_sessions = Each(list_sessions)
    end_session = Call(end_session)
    get_api_key = Call(get_api_key)
    preview_replacement = Call(preview_replacement)
    start_replacement = Call(start_replacement)
    preview_undo = Call(preview_undo)
    start_undo = Call(start_undo)
    list_undos = Each(list_undos)
    get_undo = Call(get_undo)
    get_undo_results = Each(get_undo_results)
    cancel_undo = Call(cancel_undo)
    preview_go_live = Call(preview_go_live)
    start_go_live = Call(start_go_live)
    list_go_lives = Each(list_go_lives)
    get_go_live = Call(get_go_live)
    cancel_go_live = Call(cancel_go_live)
    plan_waves = Call(plan_waves)
    list_plans = Each(list_plans)
    get_plan = Call(get_plan)
    change_wave = Call(change_wave)
    start_wave = Call(start_wave)
    pause_wave = Call(pause_wave)
    resume_wave = Call(resume_wave)
    reconcile_wave = Call(reconcile_wave)
    approve_wave = Call(approve_wave)
    stop_wave = Call(stop_wave)
    start_certificate = Call(start_certificate)
    list_certificates = Each(list_certificates)
    get_certificate = Call(get_certificate)
    download_certificate = Each(download_certificate)
    prove_account = Each(prove_account)
    create_webhook = Call(create_webhook)
    list_webhooks = Each(list_webhooks)
    get_webhook = Call(get_webhook)
    change_webhook = Call(change_webhook)
    remove_webhook = Call(remove_webhook)
    rotate_webhook_secret = Call(rotate_webhook_secret)
    test_webhook = Call(test_webhook)
    list_webhook_deliveries = Each(list_webhook_deliveries)
    get_webhook_delivery = Call(get_webhook_delivery)
    redeliver_webhook = Call(redeliver_webhook)
    get_report = Each(get_report)
