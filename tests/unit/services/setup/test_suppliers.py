"""Organisations, teams, suppliers and limits: their names, whose they are, and what the audit keeps."""

from datetime import UTC, datetime

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.db.base import new_id
from migration_service.models import ApiKey, ImportSupplier, Organisation, WebhookEndpoint
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.api_keys import KeyLimits, find_prefix, issue_api_key, revoke_api_key
from migration_service.services.setup import organisations, suppliers
from migration_service.services.setup.names import check_name, is_name, unique_name
from migration_service.states import SupplierStatus
from support.factories import Customer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", True),
        ("a" * 128, True),
        ("Noord & Zuid", True),
        ("", False),
        ("a" * 129, False),
        (" a", False),
        ("a ", False),
        ("a\nb", False),
    ],
)
def test_a_name_is_printable_and_has_no_space_at_its_ends(text: str, *, expected: bool) -> None:
    assert is_name(text) is expected
    if expected:
        check_name(text, "name of a thing")
    else:
        with pytest.raises(errors.NameInvalidError, match="The name of a thing must have 1 to 128 printable"):
            check_name(text, "name of a thing")


def test_only_the_constraint_of_the_name_says_that_it_is_taken(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        with (
            pytest.raises(errors.NameTakenError, match="taken"),
            unique_name(session, "uq_organisation_name", "taken"),
        ):
            session.add(Organisation(name=customer.organisation))
        with pytest.raises(IntegrityError), unique_name(session, "another", "taken"):
            session.add(Organisation(name=customer.organisation))
        # The session stays usable.
        assert organisations.get_organisation(session, customer.organisation).id == customer.organisation_id


def test_a_supplier_with_a_moment_of_go_live_is_not_removed(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        made = suppliers.create_import_supplier(
            session, code="T0", organisation_name=customer.organisation, profile="strict"
        )
        made.status, made.live_at = SupplierStatus.COMPLETE, datetime.now(UTC)
        session.flush()
        with pytest.raises(errors.InUseError, match="moment of go-live"):
            suppliers.remove_import_supplier(session, "T0")
        made.live_at = None
        suppliers.remove_import_supplier(session, "T0")
        assert suppliers.find_import_supplier(session, "T0", organisation_id=None) is None


def test_keys_and_webhooks_that_are_limited_to_a_supplier_keep_it(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    code = customer.import_supplier
    with sessions() as session:
        made = session.query(ImportSupplier).filter_by(code=code).one()
        made.status = SupplierStatus.COMPLETE
        limits, owner = KeyLimits(import_suppliers=[code]), customer.organisation
        key, old = (issue_api_key(session, organisation_name=owner, limits=limits) for _ in range(2))
        session.query(ApiKey).filter_by(prefix=find_prefix(old)).update({"expires_at": datetime.now(UTC)})
        webhook = WebhookEndpoint(
            id=new_id(), organisation_id=made.organisation_id, url="", import_supplier_ids=[0, made.id]
        )
        session.add(webhook)
        session.commit()
        limited = f"limited to it: the API key {find_prefix(key)}, the webhook {webhook.id}. Revoke"
        with pytest.raises(errors.InUseError, match=limited):
            suppliers.remove_import_supplier(session, code)
        session.rollback()
        revoke_api_key(session, key)
        webhook.removed_at = datetime.now(UTC)
        suppliers.remove_import_supplier(session, code)


@pytest.mark.parametrize("code", ["Noord & Zuid", "Åbo 1", "a" * suppliers.MAX_CODE, "50%", "..."])
def test_a_code_may_be_any_printable_text(
    sessions: sessionmaker[Session], customer: Customer, code: str
) -> None:
    with sessions.begin() as session:
        supplier = suppliers.create_import_supplier(
            session, code=code, organisation_name=customer.organisation
        )
        assert (supplier.status, supplier.profile, supplier.document_root) == ("Ongoing", "lenient", "")
        found = suppliers.find_import_supplier(session, code, organisation_id=customer.organisation_id)
        assert found is not None
        assert found.id == supplier.id
        session.rollback()


_NO_CODES = ("", " a", "a\n", "a/b", ".", "..", "a" * (suppliers.MAX_CODE + 1), "\u200b")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        *(({"code": it}, errors.NameInvalidError) for it in _NO_CODES),
        ({"document_root": "s3://a\nb"}, errors.NameInvalidError),
        ({"organisation_name": "nobody"}, errors.OrganisationNotFoundError),
    ],
)
def test_a_supplier_has_an_organisation_and_a_code_that_can_be_part_of_a_path(
    sessions: sessionmaker[Session], customer: Customer, given: dict[str, str], error: type[Exception]
) -> None:
    named = {"code": "X", "organisation_name": customer.organisation} | given
    with sessions.begin() as session, pytest.raises(error):
        suppliers.create_import_supplier(session, **named)


def test_a_code_is_unique_across_organisations(
    sessions: sessionmaker[Session], customer: Customer, other: Customer
) -> None:
    code = customer.import_supplier
    with sessions.begin() as session, pytest.raises(errors.NameTakenError, match=code):
        suppliers.create_import_supplier(session, code=code, organisation_name=other.organisation)


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (ActorKind.API_KEY, "The API key may not be used for import supplier 'X'."),
        (ActorKind.OPERATOR, "You may not use import supplier 'X'."),
    ],
)
def test_who_is_limited_to_other_suppliers_is_told_so(kind: ActorKind, detail: str) -> None:
    with acting_as(Origin(kind=kind, import_supplier_ids=frozenset({1}))):
        suppliers.require_supplier_allowed(1, "X")
        with pytest.raises(errors.PermissionDeniedError) as denied:
            suppliers.require_supplier_allowed(2, "X")
    assert denied.value.detail == detail
