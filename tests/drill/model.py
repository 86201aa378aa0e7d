"""What must be true of the history of each account, whatever was killed meanwhile.

Each function yields what breaks its promise. `Tables` is the content of the database at the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drill.history import Act, Event, Result

Accounts = Mapping[str, Sequence[Event]]


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt of a single request."""

    number: str
    request_id: str | None
    team: str
    #: The prefix of the API key, or None if it was not recorded.
    key_prefix: str | None
    dry_run: bool
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Tables:
    """The rows that the histories are compared with."""

    attempts: Sequence[AttemptRow] = ()
    #: `billing_address1` of each created account.
    created: Mapping[str, str] = field(default_factory=dict)
    #: The team of each created account.
    teams: Mapping[str, str] = field(default_factory=dict)


def one_number(accounts: Accounts, _tables: Tables) -> Iterator[str]:
    """No client gets two different numbers for one account, unless it was undone in between."""
    for number, events in _each_life(accounts):
        told = {event.told for event in events if event.told}
        if len(told) > 1:
            yield f"{number}: told {' and '.join(sorted(told))}"


def undone_is_gone(accounts: Accounts, _tables: Tables) -> Iterator[str]:
    """After an undo the account is UNKNOWN, without a number, until it is created again."""
    for number, events in accounts.items():
        for life in lives(events)[1:]:
            for event in life:
                if event.question.act in (Act.PROCESS, Act.LINE):
                    break
                if (
                    event.question.act is Act.STATUS
                    and _is_ok(event)
                    and (event.said, event.told) != ("UNKNOWN", "")
                ):
                    yield f"{number}: undone, and then {event.said} {event.told!r}"
                    break


def undone_gets_another_number(accounts: Accounts, _tables: Tables) -> Iterator[str]:
    """The number of an account that was undone is never given out again, to whichever account."""
    told: dict[str, tuple[str, int]] = {}
    for number, events in accounts.items():
        for index, life in enumerate(lives(events)):
            for given in {event.told for event in life if event.told}:
                if told.setdefault(given, (number, index)) != (number, index):
                    yield f"{number}: told {given}, which was the number of {told[given][0]} before"


def created_stays_created(accounts: Accounts, _tables: Tables) -> Iterator[str]:
    """Once a client got the number, every later status is COMPLETED with it, until the account is undone."""
    for number, events in _each_life(accounts):
        known_at = min((event.ended for event in events if event.told), default=None)
        if known_at is None:
            continue
        (told, *_) = sorted({event.told for event in events if event.told})
        for event in events:
            later = event.question.act is Act.STATUS and _is_ok(event) and event.invoked > known_at
            if later and (event.said, event.told) != ("COMPLETED", told):
                yield f"{number}: created as {told}, and then {event.said} {event.told!r}"
                break


def staged_stays_staged(accounts: Accounts, _tables: Tables) -> Iterator[str]:
    """Once a staging was answered, the account is found."""
    for number, events in accounts.items():
        stagings = [event.ended for event in events if event.question.act is Act.STAGE and _is_ok(event)]
        if not stagings:
            continue
        for event in events:
            missing = event.status == 404 or event.said == "account_not_staged"
            if missing and event.invoked > min(stagings):
                yield f"{number}: staged, and then {event.status} {event.said}"
                break


def refused_is_not_created(accounts: Accounts, tables: Tables) -> Iterator[str]:
    """An account whose requests (since it was undone) were all refused, or were dry runs, does not exist."""
    for number in accounts.keys() & tables.created.keys():
        parts = lives(accounts[number])
        if not parts:
            continue
        events = parts[-1]
        may_create = [
            event
            for event in events
            if event.question.act is Act.LINE
            or (event.question.act is Act.PROCESS and not event.question.dry_run)
        ]
        # A refusal with the number repeats the result of another request.
        if all(event.result is Result.REFUSED and not event.told for event in may_create):
            yield f"{number}: created, although {len(may_create)} requests were refused and no other was made"


def last_staging_counts(accounts: Accounts, tables: Tables) -> Iterator[str]:
    """A created account has the payload that was accepted last."""
    for number in accounts.keys() & tables.created.keys():
        stagings = [event for event in accounts[number] if event.question.act in (Act.STAGE, Act.LINE)]
        accepted = [event.question.version for event in stagings if _is_ok(event)]
        # A request without an answer may have arrived later than those after it.
        allowed = {event.question.version for event in stagings if event.result is Result.UNKNOWN}
        allowed.update(accepted[-1:])
        if tables.created[number] not in allowed:
            yield f"{number}: created with {tables.created[number]!r}, staged last {' or '.join(allowed)!r}"


def attempts_are_of_their_requests(accounts: Accounts, tables: Tables) -> Iterator[str]:
    """Each attempt has the id, the team and the key of a request for its account."""
    asked = {
        (number, event.request_id): event
        for number, events in accounts.items()
        for event in events
        if event.question.act is Act.PROCESS
    }
    for row in tables.attempts:
        event = asked.get((row.number, row.request_id or ""))
        if event is None:
            yield f"{row.number}: an attempt of the request {row.request_id}, which nobody sent"
            continue
        question = event.question
        if (row.team, row.dry_run) != (question.team, question.dry_run):
            yield f"{row.number}: asked for {question}, attempt with {row.team!r}, dry run {row.dry_run}"
        if row.key_prefix is None or row.key_prefix not in event.api_key:
            yield f"{row.number}: the attempt has the key {row.key_prefix}, the request had another one"


def created_for_the_team(accounts: Accounts, tables: Tables) -> Iterator[str]:
    """A created account belongs to a team that a request named."""
    for number in accounts.keys() & tables.teams.keys():
        named = {event.question.team for event in accounts[number] if event.question.team}
        if named and tables.teams[number] not in named:
            yield f"{number}: belongs to {tables.teams[number]!r}, asked for {' or '.join(sorted(named))!r}"


def accepted_has_an_outcome(accounts: Accounts, tables: Tables) -> Iterator[str]:
    """A request that was answered 201 or 202 has one attempt, with an outcome."""
    outcomes: dict[str | None, list[str | None]] = {}
    for row in tables.attempts:
        outcomes.setdefault(row.request_id, []).append(row.outcome)
    for number, events in accounts.items():
        for event in events:
            if event.question.act is not Act.PROCESS or event.status not in (201, 202):
                continue
            found = outcomes.get(event.request_id, [])
            allowed = ["SUCCEEDED"] if event.status == 201 else ["SUCCEEDED", "FAILED", "DRY_RUN_SUCCEEDED"]
            if len(found) != 1 or found[0] not in allowed:
                yield f"{number}: answered {event.status}, and its attempts are {found}"


def lives(events: Sequence[Event]) -> list[list[Event]]:
    """Return the events of an account in parts: each undo that reverted it begins another one.

    There is no part if nobody knows whether an undo did, because anything may be true then.
    """
    undos = [event for event in events if event.question.act is Act.UNDO]
    if any(event.result is Result.UNKNOWN for event in undos):
        return []
    parts: list[list[Event]] = [[]]
    for event in events:
        if event.question.act is not Act.UNDO:
            parts[-1].append(event)
        elif _is_ok(event):
            parts.append([])
    return parts


def _each_life(accounts: Accounts) -> Iterator[tuple[str, list[Event]]]:
    return ((number, life) for number, events in accounts.items() for life in lives(events))


def _is_ok(event: Event) -> bool:
    return event.result is Result.OK


#: The promises by their descriptions in the table.
MODEL: dict[str, Callable[[Accounts, Tables], Iterator[str]]] = {
    "one account, one number": one_number,
    "what was undone is gone": undone_is_gone,
    "a number is never given out again after an undo": undone_gets_another_number,
    "created stays created, whoever asks": created_stays_created,
    "staged stays staged": staged_stays_staged,
    "what was refused is not created": refused_is_not_created,
    "the payload that was accepted last": last_staging_counts,
    "attempts have the id, team and key of their requests": attempts_are_of_their_requests,
    "accounts belong to the team that was named": created_for_the_team,
    "accepted requests have one attempt with an outcome": accepted_has_an_outcome,
}
