"""When a worker that asks payment vendors pauses."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call, patch

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import PaymentVendorNotFoundError
from migration_service.services.batches.added_data import instructions
from migration_service.services.batches.added_data.instructions import ask_vendors

_NEW = SimpleNamespace(exists=False, vendor=SimpleNamespace(id=1))
_KNOWN = SimpleNamespace(exists=True, vendor=SimpleNamespace(id=1))


@pytest.mark.parametrize(
    ("found", "pauses"),
    [
        ([], []),
        ([_NEW], [call(1.0)]),
        ([_KNOWN], []),
        ([PaymentVendorNotFoundError(found="V")], []),
        ([_NEW, _KNOWN], []),
    ],
)
def test_a_worker_pauses_if_the_calls_of_the_next_seconds_are_reserved_and_nothing_else_is_known(
    sessions: sessionmaker[Session], found: list[Any], pauses: list[Any]
) -> None:
    data = [
        {"external_account_number": "1", "vendor": "V", "reference": str(i), "type": "CARD"}
        for i in range(len(found))
    ]
    account: Any = Mock()
    with (
        patch.object(instructions, "find_instruction", side_effect=found),
        patch.object(instructions, "reserve_calls", return_value=None),
        patch.object(instructions, "time") as clock,
    ):
        answers = ask_vendors(sessions, [(account, it) for it in data])
    assert clock.sleep.call_args_list == pauses
    assert len(answers) == len([it for it in found if it is not _NEW])
