"""TLS to PostgreSQL and Redis, which only their addresses request, with valid and invalid certificates."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import trustme
from kombu import Connection
from kombu.exceptions import OperationalError as BrokerError
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.engine import make_engine, parse_database_url
from support.factories import close_celery
from support.tls_proxy import TlsProxy


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of an authority that has nothing to do with the servers."""
    file = tmp_path_factory.mktemp("stranger") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    return file


@pytest.fixture(scope="module")
def trusted(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trusted") / "ca.pem"
    authority.cert_pem.write_to_path(file)
    return file


@pytest.fixture(scope="module")
def certificate(authority: trustme.CA) -> trustme.LeafCert:
    """It is for localhost, and not for 127.0.0.1."""
    return authority.issue_cert("localhost")


@pytest.fixture
def postgres(migrated: Settings, certificate: trustme.LeafCert) -> Iterator[TlsProxy]:
    url = parse_database_url(migrated.database_url)
    with TlsProxy(str(url.host), int(url.port or 0), certificate, postgres=True) as proxy:
        yield proxy


@pytest.fixture
def valkey(redis_url: str, certificate: trustme.LeafCert) -> Iterator[TlsProxy]:
    with redis.Redis.from_url(redis_url) as client:
        target = client.connection_pool.connection_kwargs
    with TlsProxy(target["host"], target["port"], certificate) as proxy:
        yield proxy


def database_url(settings: Settings, proxy: TlsProxy, host: str, authority: Path) -> str:
    url = parse_database_url(settings.database_url).set(host=host, port=proxy.port)
    options = {"sslmode": "verify-full", "sslrootcert": str(authority)}
    return url.update_query_dict(options).render_as_string(hide_password=False)


def ask_database(address: str) -> None:
    engine = make_engine(address, pool_size=1, max_overflow=0, application_name="tls")
    try:
        with engine.connect() as connection:
            assert connection.scalar(text("SELECT 1")) == 1
    finally:
        engine.dispose()


def test_postgresql_is_reached_by_tls_and_its_certificate_is_verified(
    migrated: Settings, postgres: TlsProxy, trusted: Path, stranger: Path
) -> None:
    ask_database(database_url(migrated, postgres, "localhost", trusted))
    assert postgres.connections == 1
    with pytest.raises(OperationalError, match="certificate verify failed"):
        ask_database(database_url(migrated, postgres, "localhost", stranger))
    with pytest.raises(OperationalError, match="does not match host name"):
        ask_database(database_url(migrated, postgres, "127.0.0.1", trusted))


def test_a_postgresql_without_tls_is_refused(migrated: Settings, trusted: Path) -> None:
    url = parse_database_url(migrated.database_url)
    options = {"sslmode": "verify-full", "sslrootcert": str(trusted)}
    with pytest.raises(OperationalError, match="server does not support SSL"):
        ask_database(url.update_query_dict(options).render_as_string(hide_password=False))


def secure_redis_url(redis_url: str, proxy: TlsProxy, host: str, authority: Path) -> str:
    credentials = redis_url.removeprefix("redis://").rpartition("@")[0]
    return f"rediss://{credentials}@{host}:{proxy.port}/0?ssl_cert_reqs=required&ssl_ca_certs={authority}"


def test_redis_is_reached_by_tls_and_its_certificate_is_verified(
    redis_url: str, valkey: TlsProxy, trusted: Path, stranger: Path
) -> None:
    with make_redis(secure_redis_url(redis_url, valkey, "localhost", trusted)) as client:
        assert client.ping()
    assert valkey.connections == 1
    for host, authority, reason in (
        ("localhost", stranger, "verify failed"),
        ("127.0.0.1", trusted, "IP address"),
    ):
        with (
            make_redis(secure_redis_url(redis_url, valkey, host, authority)) as client,
            pytest.raises(redis.ConnectionError, match=reason),
        ):
            client.ping()


def test_the_queues_use_the_same_address(
    migrated: Settings, redis_url: str, valkey: TlsProxy, trusted: Path, stranger: Path
) -> None:
    _connect_broker(migrated, secure_redis_url(redis_url, valkey, "localhost", trusted))
    assert valkey.connections == 1
    for host, authority in (("localhost", stranger), ("127.0.0.1", trusted)):
        with pytest.raises(BrokerError, match="certificate verify failed"):
            _connect_broker(migrated, secure_redis_url(redis_url, valkey, host, authority))


def _connect_broker(settings: Settings, address: str) -> None:
    celery = create_celery(
        Settings(home=settings.home, database_url="", redis_url=address, secret_key=settings.secret_key)
    )
    # The client with which Flower reads the queues.
    assert {"ssl_cert_reqs", "ssl_ca_certs"} == set(celery.conf.broker_use_ssl)
    try:
        connection: Connection = celery.connection_for_write()
        with connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
            connection.connect()
    finally:
        close_celery(celery)
