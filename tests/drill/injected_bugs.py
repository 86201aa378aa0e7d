"""Bugs that the drill has to find, as replacements of text in the service."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bug:
    """One bug, and the drill that finds it."""

    #: The effect of the bug for a supplier or an operator.
    consequence: str
    #: The promise that the drill has to find broken. Others may be broken, too.
    promise: str
    #: (file below src/migration_service, a text that occurs once, its replacement)
    changes: tuple[tuple[str, str, str], ...]
    #: Options of the drill.
    arguments: tuple[str, ...] = ("--rounds", "0")


_PROCESSING = "services/processing"
#: Requests that are not processed at once are withdrawn.
_HASTY = ("--rounds", "0", "--wait", "0.2", "--impatient", "0.8")

#: Every bug by its name in the table, one for each promise.
BUGS: dict[str, Bug] = {
    "slot not released": Bug(
        "Slots are held until the upkeep finds them, so that the limit is reached with nothing at work.",
        "a slot is free as soon as its account is created",
        ((f"{_PROCESSING}/signals.py", "        slots.add_release(pipeline, ended)\n", ""),),
    ),
    "withdraw does not look at the lock": Bug(
        "A request takes back an attempt that a worker is in the middle of.",
        "no answer that nobody promised",
        (
            (
                f"{_PROCESSING}/attempts.py",
                "rows = _lock(transaction, _LOCK_IF_FREE, attempt_id)\n    states",
                'rows = _lock(transaction, _LOCK.replace("FOR UPDATE OF process", ""), attempt_id)\n'
                "    states",
            ),
        ),
        _HASTY,
    ),
    "message of a withdrawn attempt runs": Bug(
        "The check for the current attempt is gone: accounts are created behind the client's back.",
        "what was refused is not created",
        (
            (
                f"{_PROCESSING}/attempts.py",
                "ON attempt.id = process.attempt_id AND attempt.account_import_process_id",
                "ON attempt.account_import_process_id",
            ),
            (
                f"{_PROCESSING}/attempts.py",
                "= '{ImportState.IN_PROGRESS}' AND NOT process.runs_alone",
                "<> '{ImportState.IMPORTED}' AND NOT process.runs_alone",
            ),
            ("services/imports/states.py", "        WHERE attempt.outcome IS NULL\n", ""),
        ),
        _HASTY,
    ),
    "the team is ignored": Bug(
        "Accounts are linked to whichever team comes first.",
        "accounts belong to the team that was named",
        (
            (
                f"{_PROCESSING}/dispatch.py",
                "WHERE name = %(operations_team_name)s\n"
                "          AND (organisation_id = supplier.organisation_id OR organisation_id IS NULL)\n"
                "        ORDER BY organisation_id NULLS LAST LIMIT 1",
                "WHERE %(operations_team_name)s::text IS NOT NULL\n        ORDER BY id LIMIT 1",
            ),
        ),
    ),
    "the key is forgotten": Bug(
        "Nobody can tell who asked for an account.",
        "attempts have the id, team and key of their requests",
        ((f"{_PROCESSING}/dispatch.py", "api_key_id=caller.api_key_id", "api_key_id=None"),),
    ),
    "what ran alone is never dispatched again": Bug(
        "An attempt whose worker died stays in progress for ever.",
        "every order created, or reported failed",
        (
            (
                f"{_PROCESSING}/attempts.py",
                "SET runs_alone = true, dispatched_at = NULL,",
                "SET runs_alone = true, dispatched_at = now(),",
            ),
        ),
        ("--rounds", "2", "--only", "worker child killed"),
    ),
    "the number is told before the commit": Bug(
        "A client knows an account that does not exist yet, and perhaps never will.",
        "created stays created, whoever asks",
        (
            (
                f"{_PROCESSING}/execution.py",
                "                ended = create_set(transaction, together)\n",
                "                ended = create_set(transaction, together)\n"
                "                import time\n"
                "                from migration_service.tasks.app import celery_app\n"
                "                from migration_service.services.processing.signals import notify\n"
                "                resources = celery_app().resources\n"
                "                numbers = {it.attempt.id: it.service_account_number for it in ended}\n"
                "                notify(resources.redis, resources.slots, numbers)\n"
                "                time.sleep(0.2)\n",
            ),
        ),
    ),
    "the payload of an older staging": Bug(
        "An account is created with data that the supplier has corrected since.",
        "the payload that was accepted last",
        (
            (
                "services/imports/storing.py",
                'SET payload = {_of_content("payload")}, payload_sha256',
                "SET payload_sha256",
            ),
        ),
    ),
    "an undone account keeps its number": Bug(
        "The status tells the number of an account that does not exist any more.",
        "what was undone is gone",
        (
            (
                "services/imports/states.py",
                "service_account_number = NULL, account_created_at = NULL,\n        dispatched_at",
                "dispatched_at",
            ),
        ),
    ),
    "the feed does not wait for the horizon": Bug(
        "An event whose transaction commits late falls behind the cursor, and its reader never gets it.",
        "the feed has each event once, in order",
        (
            (
                "services/events/reading.py",
                "          AND (generation, transaction_id) < (0, (SELECT value FROM horizon))\n",
                "",
            ),
        ),
    ),
    "accounts of single requests are not told of": Bug(
        "A supplier that waits for events never hears of its accounts.",
        "each created account is told of once",
        (
            (
                "services/imports/states.py",
                "_COMPLETE_AND_TELL if started else _COMPLETE\n",
                "_COMPLETE\n",
            ),
        ),
    ),
}
