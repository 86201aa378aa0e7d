"""Internals of libraries: one module uses each, and every new version has to be checked."""

import http.client
import inspect
from importlib.metadata import version

import pytest
from billiard import pool
from kombu.transport.redis import Channel
from marshmallow import fields
from packaging.specifiers import SpecifierSet
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import sessionmaker
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager

INTERNALS = [
    (
        "billiard",
        ">=4.3,<4.4",
        "tasks/worker_pool.py sets GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT. Check that a child still reads "
        "it when it ends, and run tests/e2e/test_worker_survives_redis.py.",
    ),
    (
        "kombu",
        ">=5.7,<5.8",
        "metrics/broker.py reads the lists and the hash of the Redis transport. Check their names, and run "
        "tests/api/reporting.",
    ),
    (
        "marshmallow",
        ">=4.0,<5",
        "migration_payloads/schemas/compiled.py calls `_deserialize` of a field. Check that `deserialize` "
        "still calls it between the checks for missing values and the validators. Run tests/unit/payloads.",
    ),
    (
        "urllib3",
        ">=2.0,<3",
        "outgoing/deadlines.py replaces the connection classes of a pool, and outgoing/guarded.py "
        "`_new_conn` of a connection. Check `ConnectionCls`, `pool_classes_by_scheme` and `_new_conn`, and "
        "run tests/unit/payment_vendors and tests/unit/outgoing.",
    ),
    (
        "sqlalchemy",
        ">=2.1,<2.2",
        "db/statements.py calls `DBAPIError.instance` and reads `sessionmaker.kw`. Check both, and run "
        "tests/unit/db.",
    ),
]


@pytest.mark.parametrize(("library", "versions", "what_to_check"), INTERNALS)
def test_the_version_is_one_whose_internals_were_checked(
    library: str, versions: str, what_to_check: str
) -> None:
    found = version(library)
    assert found in SpecifierSet(versions), f"{library} {found} is not in {versions}. {what_to_check}"


def test_billiard_reads_the_limit_when_a_child_ends() -> None:
    assert "GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT" in inspect.getsource(pool.Worker)


def test_kombu_keeps_unacknowledged_messages_under_the_name_of_an_option() -> None:
    assert "unacked_key" in Channel.from_transport_options


def test_marshmallow_reads_a_value_with_the_method_that_compiled_schemas_call() -> None:
    assert "self._deserialize(" in inspect.getsource(fields.Field.deserialize)


def test_urllib3_makes_connections_and_pools_of_the_replaced_classes() -> None:
    assert "self.ConnectionCls(" in inspect.getsource(HTTPConnectionPool._new_conn)
    assert "self.ConnectionCls(" in inspect.getsource(HTTPSConnectionPool._new_conn)
    assert "self.pool_classes_by_scheme[" in inspect.getsource(PoolManager._new_pool)


def test_an_answer_of_http_client_reads_from_fp() -> None:
    assert "self.response_class(" in inspect.getsource(http.client.HTTPConnection.getresponse)
    assert "self.fp = " in inspect.getsource(http.client.HTTPResponse.__init__)


def test_sqlalchemy_translates_errors_and_keeps_the_engine_of_a_sessionmaker() -> None:
    assert {"statement", "params", "orig", "dbapi_base_err", "hide_parameters"} <= set(
        inspect.signature(DBAPIError.instance).parameters
    )
    assert sessionmaker(None).kw["bind"] is None
