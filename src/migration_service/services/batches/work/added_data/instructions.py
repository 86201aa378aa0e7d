"""Payment instructions of a chunk, whose vendors are asked before the chunk's transaction starts.

Vendors are asked in parallel, each by several threads, within the vendor's rate limit for all workers. A
vendor that is unavailable is not asked again for the same piece, and its lines are deferred. Lines of other
vendors continue.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import PaymentVendorUnavailableError, ServiceError
from migration_service.payment_vendors.protocol import PaymentInstructionDetails
from migration_service.services.accounts.added_data import Addition, OpenAccount
from migration_service.services.accounts.payment_instructions import (
    InstructionOrder,
    ask_vendor,
    find_instruction,
    store_instruction,
)
from migration_service.services.setup.vendors import ReservedCalls, reserve_calls

#: Seconds in which the calls of a piece start. Even with the longest call added, this is less than the time
#: after which a chunk counts as lost.
ASKING_SECONDS = 3.0
#: The numbers of simultaneous vendors, and calls to each, of a worker. Slow calls in sequence would exceed
#: the time of a chunk.
_VENDORS, _THREADS = 8, 8


class InstructionKey(NamedTuple):
    """The identity of a payment instruction in a file."""

    external_account_number: str
    vendor: str
    reference: str
    type: str

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "InstructionKey":
        """Return the key of the data of a body."""
        return cls(data["external_account_number"], data["vendor"], data["reference"], data["type"])


@dataclass(frozen=True, slots=True)
class Confirmed:
    """An instruction that its vendor has confirmed, or, without details, one that was added earlier."""

    order: InstructionOrder
    details: PaymentInstructionDetails | None


Answer: TypeAlias = Confirmed | ServiceError
_Orders: TypeAlias = Mapping[InstructionKey, InstructionOrder]


def ask_vendors(
    sessions: sessionmaker[Session], wanted: Sequence[tuple[OpenAccount, dict[str, Any]]]
) -> dict[InstructionKey, Answer]:
    """Ask the vendors about as many payment instructions as there is time for. Return their responses."""
    answers: dict[InstructionKey, Answer] = {}
    orders: dict[InstructionKey, InstructionOrder] = {}
    with sessions.begin() as session:
        for account, data in wanted:
            key = InstructionKey.of(data)
            try:
                order = find_instruction(session, account, data)
            except ServiceError as error:
                answers[key] = error
                continue
            if order.exists:
                answers[key] = Confirmed(order, None)
            else:
                orders[key] = order
    with ThreadPoolExecutor(_VENDORS) as pool:
        for found in pool.map(lambda reserved: _ask(*reserved), _reserve(sessions, orders)):
            answers |= found
    if orders and not answers:
        time.sleep(1.0)  # other workers have reserved the calls of the next seconds
    return answers


def _reserve(sessions: sessionmaker[Session], orders: _Orders) -> list[tuple[_Orders, ReservedCalls]]:
    """Reserve calls to the first vendors. Return, for each vendor, the instructions to ask about now."""
    reserved: list[tuple[_Orders, ReservedCalls]] = []
    for vendor_id in islice(dict.fromkeys(order.vendor.id for order in orders.values()), _VENDORS):
        own = {key: order for key, order in orders.items() if order.vendor.id == vendor_id}
        with sessions.begin() as session:
            calls = reserve_calls(session, vendor_id, len(own), seconds=ASKING_SECONDS)
        if calls is not None:
            reserved.append((own, calls))
    return reserved


def _ask(orders: _Orders, calls: ReservedCalls) -> dict[InstructionKey, Answer]:
    """Make the reserved calls to one vendor. The first failure counts for all remaining instructions."""
    starts_at = time.monotonic() + calls.delay
    unavailable: list[PaymentVendorUnavailableError] = []

    def ask(place: int, order: InstructionOrder) -> Answer | None:
        time.sleep(max(0.0, starts_at + place * calls.interval - time.monotonic()))
        if unavailable:
            return None
        try:
            return Confirmed(order, ask_vendor(order))
        except PaymentVendorUnavailableError as error:
            unavailable.append(error)
            return None
        except ServiceError as error:
            return error

    asked = list(orders.items())[: calls.number]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(lambda place: ask(place, asked[place][1]), range(len(asked))))
    answers = {key: answer for (key, _), answer in zip(asked, found, strict=True) if answer is not None}
    if unavailable:
        return dict.fromkeys(orders, unavailable[0]) | answers
    return answers


def add_instructions(
    session: Session, additions: Sequence[Addition], answers: Mapping[InstructionKey, Answer]
) -> list[bool | ServiceError | None]:
    """Store the instructions confirmed by their vendors. Return whether each is new.

    The result is an error if the vendor does not confirm the instruction, and None without a response yet.
    Later instructions of the same account then wait, so that they keep the order of the file.
    """
    waiting: dict[int, PaymentVendorUnavailableError | None] = {}
    results: list[bool | ServiceError | None] = []
    for addition in additions:
        answer = answers.get(InstructionKey.of(addition.data))
        if addition.account.id in waiting:
            results.append(waiting[addition.account.id])
        elif answer is None or isinstance(answer, PaymentVendorUnavailableError):
            waiting[addition.account.id] = answer
            results.append(answer)
        elif isinstance(answer, ServiceError):
            results.append(answer)
        elif answer.details is None:
            results.append(False)
        else:
            try:
                results.append(store_instruction(session, answer.order, answer.details))
            except ServiceError as error:
                results.append(error)
    return results
