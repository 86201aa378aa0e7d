"""Two requests with one idempotency key, in every order, also if the lease of the first one ends."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import IdempotencyRequestInProgressError
from migration_service.models import OperationsTeam
from migration_service.models.idempotency import IdempotencyKey
from migration_service.services.idempotency.keys import (
    EarlierAttempt,
    KeptAnswer,
    KeyedRequest,
    claim_key,
    keep_answer,
    release_key,
)
from support.factories import make_customer
from support.interleavings import COMMIT, Run, Scenario, Step, explore


@dataclass(frozen=True, slots=True)
class Sender:
    """One of the requests. Its effect is a team of its name."""

    request: KeyedRequest
    name: str
    claim_id: UUID

    def claim(self, session: Session) -> KeptAnswer | EarlierAttempt | None:
        claimed = claim_key(session, self.request, self.claim_id)
        session.commit()
        return claimed

    def be_slow(self, session: Session) -> None:
        """Let the lease end, if the key is still claimed for this request."""
        mine = IdempotencyKey.claim_id == self.claim_id
        session.execute(update(IdempotencyKey).where(mine).values(leased_until=func.now()))
        session.commit()

    def act(self, session: Session) -> None:
        session.add(OperationsTeam(name=self.name))
        answer = KeptAnswer(201, {}, self.name.encode())
        keep_answer(session, self.request, self.claim_id, answer)

    def release(self, session: Session) -> None:
        release_key(session, self.request, self.claim_id)
        session.commit()


def _senders(organisation_id: int) -> tuple[Sender, Sender]:
    request = KeyedRequest(organisation_id, "/of/this/test", str(uuid4()), b"the same")
    return Sender(request, f"one {uuid4()}", new_id()), Sender(request, f"other {uuid4()}", new_id())


def _effects(sessions: sessionmaker[Session], *senders: Sender) -> list[str]:
    with sessions() as session:
        names = [sender.name for sender in senders]
        return list(session.scalars(select(OperationsTeam.name).where(OperationsTeam.name.in_(names))))


def _kept(sessions: sessionmaker[Session], sender: Sender) -> list[str]:
    with sessions() as session:
        bodies = select(IdempotencyKey.body).where(IdempotencyKey.key == sender.request.key)
        return [body.decode() for body in session.scalars(bodies) if body]


def _if_claimed(what: str, action: Callable[[Session], None], state: dict[str, bool]) -> Step:
    return (what, lambda session: action(session) if state.get("claimed") else None)


def test_the_effect_happens_once_and_its_answer_is_kept(sessions: sessionmaker[Session]) -> None:
    customer = make_customer(sessions)

    def scenario() -> Scenario:
        one, other = _senders(customer.organisation_id)
        claims: dict[str, dict[str, bool]] = {"one": {}, "other": {}}

        def claim(name: str, sender: Sender) -> Step:
            def act(session: Session) -> object:
                answered = sender.claim(session)
                claims[name]["claimed"] = answered is None
                return answered

            return ("claim", act)

        def check(run: Run) -> None:
            for name, error in run.errors.items():
                assert isinstance(error, IdempotencyRequestInProgressError), f"{name}: {error}"
            effects = _effects(sessions, one, other)
            assert len(effects) <= 1, "the same request was carried out twice"
            assert _kept(sessions, one) == effects, (
                "the effect exists without the answer, or the answer without the effect"
            )
            answer = run.results["other.claim"]
            if isinstance(answer, KeptAnswer):
                assert [answer.body.decode()] == effects == [one.name]

        acts: dict[str, list[Step]] = {
            "one": [
                claim("one", one),
                _if_claimed("be slow", one.be_slow, claims["one"]),
                _if_claimed("act", one.act, claims["one"]),
                COMMIT,
            ],
            "other": [
                claim("other", other),
                _if_claimed("act", other.act, claims["other"]),
                COMMIT,
            ],
        }
        return Scenario(acts, check)

    assert explore(sessions, scenario) == 9


def test_a_refused_request_releases_its_key_for_the_next_one(sessions: sessionmaker[Session]) -> None:
    customer = make_customer(sessions)

    def scenario() -> Scenario:
        one, other = _senders(customer.organisation_id)

        def check(run: Run) -> None:
            answer = run.results["other.claim"]
            if run.order == ["one.claim", "other.claim", "one.release"]:
                assert isinstance(answer, IdempotencyRequestInProgressError)
            else:
                assert answer is None
            assert _effects(sessions, one, other) == []

        acts: dict[str, list[Step]] = {
            "one": [("claim", one.claim), ("release", one.release)],
            "other": [("claim", other.claim)],
        }
        return Scenario(acts, check)

    assert explore(sessions, scenario) == 3
