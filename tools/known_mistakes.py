"""Mistakes that all tests once passed with, each in one sentence, and the tests that notice it now.

    python tools/known_mistakes.py                     makes each of them, and runs its tests
    python tools/known_mistakes.py "team"              only those with this in their name

Each is made in a copy of the package, in which its tests run. The exit status is 1 if a mistake is not
noticed. Add a mistake that got through here, together with the test that would have found it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Known:
    """A mistake: replacements of texts that occur once in a file, found from src/migration_service."""

    file: str
    changes: tuple[tuple[str, str], ...]
    #: Tests below `tests`: a file, or a test in it after `::`. One of them fails.
    tests: str


_ATTEMPTS = "services/processing/attempts.py"
_DISPATCH = "services/processing/dispatch.py"
_ROWS = "worker/processing/test_recorded_rows.py"
_SLOTS = "api/processing/test_slots_are_returned.py"
_AWAY = "api/processing/test_without_redis_or_database.py"
_ORDERS = "worker/processing/test_interleavings.py"
_MEANWHILE = (
    "worker/processing/test_attempts.py"
    "::test_no_slot_is_restored_for_an_attempt_that_ends_while_the_slots_are_compared"
)
_ENDS = "worker/batches/test_lines.py::test_a_batch_pauses_and_stops_with_its_supplier"
_RETENTION = "unit/services/reporting/test_retention.py::test_each_setting_has_its_own_removal"

#: Every mistake by its name.
KNOWN: dict[str, Known] = {
    "an account is linked to any team": Known(
        "services/processing/creation.py",
        (
            (
                "                   job.operations_team_id, job.service_account_number, process.payload",
                "                   (SELECT min(id) FROM operations_team) AS operations_team_id,"
                " job.service_account_number, process.payload",
            ),
        ),
        _ROWS,
    ),
    "an attempt is linked to any team": Known(
        "services/imports/states.py",
        (
            (
                "SELECT {_VALUES} FROM started",
                "SELECT {_VALUES.replace('%(operations_team_id)s', '(SELECT min(id) FROM operations_team)')}"
                " FROM started",
            ),
        ),
        _ROWS,
    ),
    "an attempt has no key": Known(
        _DISPATCH, (("api_key_id=caller.api_key_id,", "api_key_id=None,"),), _ROWS
    ),
    "an attempt has no request id": Known(
        _DISPATCH, (("request_id=request_id.get(),", "request_id=None,"),), _ROWS
    ),
    "a batch has no key": Known(
        "services/batches/intake/upload.py", (("api_key_id=order.api_key_id,", "api_key_id=None,"),), _ROWS
    ),
    "a batch has no request id": Known(
        "services/batches/intake/upload.py",
        (("request_id=current_origin().request_id,", "request_id=None,"),),
        _ROWS,
    ),
    "two retention settings are swapped": Known(
        "services/reporting/retention.py",
        (
            ("settings.batch_retention_days", "settings.SWAPPED"),
            ("settings.payload_retention_days", "settings.batch_retention_days"),
            ("settings.SWAPPED", "settings.payload_retention_days"),
        ),
        _RETENTION,
    ),
    "zero days delete everything": Known(
        "services/reporting/retention.py", (("in by_days if days]", "in by_days]"),), _RETENTION
    ),
    "a batch that is resumed keeps the time of its end": Known(
        "services/batches/states.py",
        (("func.now() if change.target in _FINAL else None", "batch.finished_at or func.now()"),),
        _ENDS,
    ),
    "a batch that stops with its supplier has no end": Known(
        "services/batches/states.py",
        (("CASE follow.state WHEN '{BatchState.STOPPED}' THEN now() END", "NULL"),),
        _ENDS,
    ),
    "a chunk that is given back has lost a try": Known(
        "services/batches/work/chunks.py",
        (("tries=BatchChunk.tries - 1)", "tries=BatchChunk.tries)"),),
        "worker/batches/test_chunks.py",
    ),
    "a page of a list has the accounts of another organisation": Known(
        "blueprints/requests/interface.py",
        (("organisation_id=caller().organisation_id)\n", "organisation_id=None)\n"),),
        "api/imports/test_status.py",
    ),
    "the batch of another supplier is reconciled": Known(
        "services/batches/control.py",
        (("batch.import_supplier_id != supplier.id", "not supplier.id"),),
        "worker/reporting/test_reconciliation.py",
    ),
    "the slot stays with a request that could not begin": Known(
        _DISPATCH, (("        d.slots.release([attempt.id])\n        raise", "        raise"),), _SLOTS
    ),
    "the slot stays if no worker came in time": Known(
        _DISPATCH,
        (("    if withdrawn:\n        d.slots.release([attempt_id])\n", "    if withdrawn:\n"),),
        _SLOTS,
    ),
    "an attempt that no worker took is not withdrawn": Known(
        _ATTEMPTS,
        (("Outcome.WITHDRAWN) for row in rows]", "Outcome.WITHDRAWN) for row in rows if row.dry_run]"),),
        _SLOTS,
    ),
    "an attempt runs without the lock of its row": Known(
        _ATTEMPTS,
        (
            ("%(attempt_id)s FOR UPDATE OF process", "%(attempt_id)s"),
            ('_LOCK_IF_FREE = f"{_LOCK} SKIP LOCKED"', "_LOCK_IF_FREE = _LOCK"),
        ),
        _ORDERS,
    ),
    "a second worker waits for the lock of the first": Known(
        _ATTEMPTS, (('_LOCK_IF_FREE = f"{_LOCK} SKIP LOCKED"', "_LOCK_IF_FREE = _LOCK"),), _ORDERS
    ),
    "two files lock the same accounts in another order": Known(
        "services/imports/storing.py",
        (("    ORDER BY number\n", ""),),
        f"{_ORDERS}::test_two_files_with_the_same_accounts_in_another_order_do_not_deadlock",
    ),
    "the slots that were restored are not compared again": Known(
        "services/processing/slots.py",
        (("slots.release(set(added) - still)", "slots.release(set(added) - set(added))"),),
        _MEANWHILE,
    ),
    "attempts are listed in another order": Known(
        "services/reporting/attempts.py",
        ((".order_by(Attempt.id.desc())", ".order_by(Attempt.id)"),),
        "api/reporting/test_attempts.py",
    ),
    "an answer of the mail server does not reset the breaker": Known(
        "services/emails/outbox.py",
        (("self._breaker.record_success()", "pass"),),
        "worker/deliveries/test_emails.py",
    ),
    "a pool without a free connection is an internal error": Known(
        "blueprints/requests/errors.py",
        (("    app.register_error_handler(PoolTimeoutError, _database_unavailable)\n", ""),),
        _AWAY,
    ),
    "without Redis a request is answered 500": Known(
        "services/processing/slots.py",
        (
            (
                "    except RedisError as error:\n        raise ServiceUnavailableError",
                "    except ZeroDivisionError as error:\n        raise ServiceUnavailableError",
            ),
        ),
        _AWAY,
    ),
    "notifications are kept for ever": Known(
        "services/processing/signals.py",
        (("            pipeline.expire(key, KEPT_SECONDS)\n", ""),),
        _AWAY,
    ),
    "half a cent is a difference": Known(
        "../migration_payloads/rules/balances.py",
        (("> HALF_A_CENT", ">= HALF_A_CENT"),),
        "unit/payloads/rules/test_functions.py",
    ),
    "accounts that are being created count as staged": Known(
        "services/imports/quota.py",
        (
            (
                "if state == ImportState.PENDING}",
                "if state in (ImportState.PENDING, ImportState.IN_PROGRESS)}",
            ),
        ),
        "api/imports/test_staged_quota.py",
    ),
    "a window is searched for in the next week only": Known(
        "services/waves/windows.py",
        (("_HORIZON = 400", "_HORIZON = 8"),),
        "unit/services/waves/test_windows.py",
    ),
    "the fast path takes a whole number that the schema refuses": Known(
        "../migration_payloads/schemas/compiled.py",
        (("msgspec.Meta(gt=-", "msgspec.Meta(ge=-"),),
        "unit/payloads/schemas/test_compiled.py",
    ),
    "an e-mail that is being sent is claimed again": Known(
        "services/emails/outbox.py",
        (("    next_try_at = clock_timestamp() + make_interval(secs => :lease),\n", ""),),
        "worker/deliveries/test_emails.py",
    ),
    "a key is rolled before every web process knows": Known(
        "cli/api_keys.py",
        (
            (
                "open_session_of_reference(read_settings()) as session:\n        api_key, old",
                "open_session(read_settings()) as session:\n        api_key, old",
            ),
        ),
        "api/access/test_reference_data.py",
    ),
    "a second Ctrl-C kills the database": Known(
        "../migration_service_local/up/supervisor.py",
        (("(lambda: False) if group.server else (lambda: self._signals > 1)", "lambda: self._signals > 1"),),
        "local/up/test_supervisor.py",
    ),
    "an answer may take longer than what is left of the call": Known(
        "payment_vendors/connection.py",
        (("min(self._limits.answer_seconds, seconds - connect_seconds)", "self._limits.answer_seconds"),),
        "unit/payment_vendors/test_connection.py",
    ),
    "an undo finds its pending lines by no index": Known(
        "alembic/versions/0005_waves.py",
        (("WHERE outcome = 'PENDING'", "WHERE outcome = 'KEPT'"),),
        "unit/db/test_indexes.py",
    ),
    "a window of an error threshold has a chunk too many": Known(
        "services/batches/error_thresholds.py",
        (("newer < :window", "newer <= :window"),),
        "unit/services/batches/work/test_measure.py",
    ),
    "the batch of any supplier makes a chunk due": Known(
        "services/batches/work/added_data/deferral.py",
        (
            (
                "        WHERE ended.import_supplier_id = batch.import_supplier_id\n          AND ",
                "        WHERE ",
            ),
        ),
        "unit/services/batches/work/added_data/test_deferral.py",
    ),
    "a supplier goes live while its accounts are undone": Known(
        "services/undo/execution.py",
        (("WHERE id = :id FOR SHARE", "WHERE id = :id FOR KEY SHARE"),),
        "unit/services/undo/test_execution.py",
    ),
    "an operator of no supplier counts the e-mails of all": Known(
        "services/reporting/emails.py",
        (
            (
                "    if import_supplier_ids is not None:\n        statement = (",
                "    if import_supplier_ids:\n        statement = (",
            ),
        ),
        "unit/services/reporting/test_emails.py",
    ),
    "a key that is used again keeps its old date": Known(
        "services/idempotency/keys.py",
        (("leased_until = now(), created_at = now()", "leased_until = now()"),),
        "worker/idempotency/test_keys.py",
    ),
    "ending a session waits before the commit": Known(
        "blueprints/sessions.py",
        (("ended)\n    wait_until_known()", "ended)\n        wait_until_known()"),),
        "api/access/test_reference_data.py",
    ),
    "whoever may read sees personal data": Known(
        "blueprints/console/views.py",
        (('"accounts.show_personal_data": _OPERATE', '"accounts.show_personal_data": _READ'),),
        "api/console/test_access.py",
    ),
    "slots that were just acquired are released": Known(
        "services/processing/slots.py",
        (("slots, '-inf', now + lease - grace))", "slots, '-inf', now + lease))"),),
        "unit/services/processing/test_slots.py",
    ),
    "each failure to log in extends the minute": Known(
        "services/access/throttle.py",
        (
            (
                "  if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end",
                "  redis.call('PEXPIRE', KEYS[1], ARGV[1])",
            ),
        ),
        "unit/services/access/test_throttle.py",
    ),
    "answers of a vendor are lost when it fails later": Known(
        "services/batches/work/added_data/instructions.py",
        (("dict.fromkeys(orders, unavailable[0]) | answers", "dict.fromkeys(orders, unavailable[0])"),),
        "unit/services/batches/work/added_data/test_instructions.py",
    ),
    "a payload is not validated again for a strict supplier": Known(
        _ATTEMPTS,
        ((" OR process.profile <> supplier.profile\n", "\n"),),
        "api/processing/test_process.py",
    ),
    "an address without a domain is an internal error": Known(
        "emails/messages.py", ((", HeaderParseError, IndexError)", ", HeaderParseError)"),), "unit/emails"
    ),
}


def apply(source: str, known: Known) -> str:
    """Return the text of the file with the mistake. Raise ValueError if a text is not there exactly once."""
    for old, new in known.changes:
        if source.count(old) != 1:
            raise ValueError(
                f"{known.file} has {source.count(old)} times, not once: {old!r}. Adapt the mistake."
            )
        source = source.replace(old, new)
    return source


def is_noticed(known: Known) -> bool:
    """Return whether the tests of a mistake fail with it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        file = Path(folder) / "src/migration_service" / known.file
        file.write_text(apply(file.read_text(), known))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", f"tests/{known.tests}"]
        environment = os.environ | {"PYTHONPATH": f"{folder}/src"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    return done.returncode == 1


def main() -> int:
    """Try the mistakes, print a line for each, and return 1 if one is not noticed."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    unnoticed = 0
    for name, known in KNOWN.items():
        if wanted in name:
            noticed = is_noticed(known)
            unnoticed += not noticed
            print(f"{'noticed    ' if noticed else 'NOT NOTICED'} {name}", flush=True)
    print(f"{unnoticed} unnoticed")
    return min(unnoticed, 1)


if __name__ == "__main__":
    sys.exit(main())
