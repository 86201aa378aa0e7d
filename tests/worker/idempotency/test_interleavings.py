"""Two requests with one idempotency key, in every order."""

from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.sql import OpenTransaction
from migration_service.errors import IdempotencyRequestInProgressError
from migration_service.models import OperationsTeam
from migration_service.services.idempotency.keys import (
    EarlierAttempt,
    KeptAnswer,
    KeyedRequest,
    find_answer,
    keep_answer,
)
from support.factories import make_customer
from support.interleavings import COMMIT, Run, Scenario, explore


@dataclass(slots=True)
class Sender:
    """One of the requests. Its effect is a team of its name."""

    request: KeyedRequest
    name: str
    earlier: KeptAnswer | EarlierAttempt | None = None

    def find(self, session: Session) -> KeptAnswer | EarlierAttempt | None:
        self.earlier = find_answer(OpenTransaction.of(session), self.request)
        session.commit()
        return self.earlier

    def act(self, session: Session) -> None:
        if self.earlier is None:
            session.add(OperationsTeam(name=self.name))
            session.flush()
            keep_answer(OpenTransaction.of(session), self.request, KeptAnswer(201, {}, self.name.encode()))


def _effects(sessions: sessionmaker[Session], *senders: Sender) -> list[str]:
    with sessions() as session:
        names = [sender.name for sender in senders]
        return list(session.scalars(select(OperationsTeam.name).where(OperationsTeam.name.in_(names))))


def test_the_effect_happens_once_and_every_repetition_finds_its_answer(
    sessions: sessionmaker[Session],
) -> None:
    customer = make_customer(sessions)

    def scenario() -> Scenario:
        request = KeyedRequest(customer.organisation_id, "/of/this/test", str(uuid4()), b"the same")
        one, other = Sender(request, f"one {uuid4()}"), Sender(request, f"other {uuid4()}")

        def check(run: Run) -> None:
            for name, error in run.errors.items():
                assert isinstance(error, IdempotencyRequestInProgressError), f"{name}: {error}"
            (effect,) = _effects(sessions, one, other)
            with sessions() as session:
                assert find_answer(OpenTransaction.of(session), request) == KeptAnswer(
                    201, {}, effect.encode()
                )
            # Whoever had no effect found the answer, or was told to look again.
            for name, sender in {"one": one, "other": other}.items():
                assert (sender.name == effect) != bool(sender.earlier or f"{name}.act" in run.errors)

        steps = {
            name: [("find", sender.find), ("act", sender.act), COMMIT]
            for name, sender in {"one": one, "other": other}.items()
        }
        return Scenario(steps, check)

    assert explore(sessions, scenario) > 9
