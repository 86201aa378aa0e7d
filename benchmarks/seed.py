"""Fills the database with the client and with staged accounts."""

import hashlib
from collections.abc import Iterator, Sequence
from uuid import UUID

import psycopg
from sqlalchemy.orm import Session, sessionmaker

from benchmarks.payloads import NUMBER, SUPPLIER, TEAM
from migration_payloads.profile import Profile
from migration_payloads.schemas.json import parse_json
from migration_payloads.validation import validate_account
from migration_service.config import Settings
from migration_service.db.base import Base
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.sql import OpenTransaction
from migration_service.models import Account, Batch
from migration_service.models.part import parts_of
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.access.tokens import obtain_tokens
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.imports.storing import stage
from migration_service.services.setup.organisations import create_organisation
from migration_service.services.setup.suppliers import create_import_supplier, get_import_supplier
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.setup.vendors import LARGEST_RATE, create_payment_vendor, set_vendor_rate
from migration_service.services.waves.running import run_batch
from migration_service.states import BatchMode, BatchSource
from migration_service_local.demo.migration import VENDOR
from migration_service_local.sandbox import SANDBOX_VARIABLE

#: Stages copies of the templates under the numbers from `first` to `last`, and returns their ids.
STAGE_COPIES = """
    INSERT INTO account_import_process
           (import_supplier_id, external_account_number, payload, payload_sha256, rules_version,
            profile, warnings)
    SELECT t.import_supplier_id, lpad(n::text, 8, '0'),
           t.payload || jsonb_build_object('external_account_number', lpad(n::text, 8, '0')),
           t.payload_sha256, t.rules_version, t.profile, t.warnings
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
    JOIN account_import_process t ON t.external_account_number =
         lpad((n %% %(templates)s)::text, 8, '0')
    RETURNING id
"""


def set_up_caller(settings: Settings) -> tuple[str, str]:
    """Create an organisation with a key, a supplier and a team. Return the key and a token."""
    with sessions(settings).begin() as session:
        create_organisation(session, "Benchmark")
        create_import_supplier(
            session, code=SUPPLIER, organisation_name="Benchmark", document_root="s3://bucket/documents"
        )
        create_operations_team(session, TEAM)
        api_key = issue_api_key(session, organisation_name="Benchmark")
        return api_key, obtain_tokens(session, settings, api_key).token


def set_up_vendor(settings: Settings, url: str) -> None:
    """Create the payment vendor at this address, with the highest rate that batches may have."""
    with sessions(settings).begin() as session:
        create_payment_vendor(session, VENDOR, kind=VendorKind.HTTP, url=url, secret_env=SANDBOX_VARIABLE)
        set_vendor_rate(session, VENDOR, LARGEST_RATE)


def set_up_peer(settings: Settings, schema: str, token: str) -> None:
    """The tables of peer a with the accounts that are staged already, and its own token."""
    digest = hashlib.sha256(token.encode()).digest()
    with psycopg.connect(settings.owner_database_url) as connection:
        connection.execute(schema.encode())
        connection.execute("INSERT INTO peer.token (sha256, organisation_id) VALUES (%s, 1)", [digest])


def sessions(settings: Settings) -> sessionmaker[Session]:
    """Return a sessionmaker as workers have it."""
    engine = make_engine(
        settings.database_url, pool_size=3, max_overflow=0, application_name="migration-bench"
    )
    return make_sessionmaker(engine)


def stage_templates(settings: Settings, texts: Sequence[str]) -> int:
    """Stage these payloads under the numbers from 0 on. Return how many there are."""
    with sessions(settings).begin() as session:
        supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
        for number, text in enumerate(texts):
            account = parse_json(text.replace(NUMBER, f"{number:08d}").encode())
            stage(OpenTransaction.of(session), supplier, [validate_account(account, Profile.LENIENT)])
    return len(texts)


def stage_copies(settings: Settings, first: int, count: int, templates: int) -> list[int]:
    """Stage copies of the templates under the numbers from `first` on. Return the ids of their processes."""
    with psycopg.connect(settings.owner_database_url) as connection:
        staged = connection.execute(
            STAGE_COPIES, {"first": first, "last": first + count - 1, "templates": templates}
        ).fetchall()
    with psycopg.connect(settings.owner_database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE account_import_process")
    return [row[0] for row in staged]


def start_staged(session: Session, processes: Sequence[int]) -> UUID:
    """Start a batch of staged accounts, as a wave does it. Return its id."""
    order = BatchOrder(
        mode=BatchMode.IMPORT,
        source=BatchSource.PENDING,
        operations_team_name=TEAM,
        wave_processes=processes,
    )
    supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
    batch_id = start_batch(session, supplier, order)
    run_batch(session, session.get_one(Batch, batch_id), None)
    return batch_id


def account_tables(parent: type[Base] = Account) -> Iterator[type[Base]]:
    """The models that account creation fills, parents first."""
    yield parent
    for model in parts_of(parent):
        yield from account_tables(model)
