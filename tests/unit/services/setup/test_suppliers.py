"""Organisations, teams, suppliers and limits: their names, whose they are, and what the audit keeps."""

import re
from datetime import UTC, datetime
from functools import partial

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.db.base import new_id
from migration_service.models import ApiKey, ImportSupplier, OperationsTeam, Organisation, WebhookEndpoint
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.api_keys import KeyLimits, find_prefix, issue_api_key, revoke_api_key
from migration_service.services.setup import organisations, suppliers, teams
from migration_service.services.setup.limits import get_concurrency_limit, set_concurrency_limit
from migration_service.services.setup.names import check_name, is_name, unique_name
from migration_service.states import SupplierStatus
from support.audit import list_told
from support.factories import Customer, make_customer


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


def test_a_name_is_in_its_normal_form() -> None:
    with pytest.raises(errors.NameInvalidError, match=r"The name of a thing .* is not in its normal form"):
        check_name("A\u030abo", "name of a thing")


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


def test_organisations_are_created_found_and_listed_by_name(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        made = [organisations.create_organisation(session, name) for name in ("Zuid", "Noord")]
        assert [it.name for it in made] == ["Zuid", "Noord"]
        with pytest.raises(errors.NameInvalidError, match="name of an organisation"):
            organisations.create_organisation(session, "")
        with pytest.raises(errors.NameTakenError, match="'Zuid' already exists"):
            organisations.create_organisation(session, "Zuid")
    with sessions() as session:
        assert organisations.get_organisation(session, "Noord").id == made[1].id
        assert [it.name for it in organisations.list_organisations(session)] == ["Noord", "Zuid"]
        assert list_told(session, "organisation.created") == [
            ("organisation", it.name, it.id, None) for it in made
        ]
        for name in ("nobody", "", "\0", "\udcff"):
            with pytest.raises(errors.OrganisationNotFoundError):
                organisations.get_organisation(session, name)


def test_a_team_is_that_of_the_organisation_or_else_a_shared_one(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other = make_customer(sessions)
    with sessions.begin() as session:
        theirs = teams.create_operations_team(session, "A", organisation_name=other.organisation)
        shared = teams.create_operations_team(session, "A")
        own = teams.create_operations_team(session, "A", organisation_name=customer.organisation)
        foreign = teams.create_operations_team(session, "B", organisation_name=other.organisation)
        assert {theirs.organisation_id, own.organisation_id, shared.organisation_id} == {
            other.organisation_id,
            customer.organisation_id,
            None,
        }
    with sessions() as session:
        find = teams.get_operations_team_id
        assert find(session, customer.organisation_id, "A") == own.id
        assert find(session, other.organisation_id, "A") == theirs.id
        assert find(session, 0, "A") == shared.id
        assert find(session, other.organisation_id, "B") == foreign.id
        for organisation_id, name in ((customer.organisation_id, "B"), (0, "nobody"), (0, None)):
            with pytest.raises(errors.OperationsTeamNotFoundError):
                find(session, organisation_id, name)
        assert [(team.id, owner) for team, owner in teams.list_operations_teams(session)][:4] == [
            (theirs.id, other.organisation),
            (shared.id, None),
            (own.id, customer.organisation),
            (foreign.id, other.organisation),
        ]
        entries = list_told(session, "operations_team.created")[-4:]
        assert entries == [
            ("operations_team", "A", other.organisation_id, None),
            ("operations_team", "A", None, None),
            ("operations_team", "A", customer.organisation_id, None),
            ("operations_team", "B", other.organisation_id, None),
        ]


def test_a_team_has_a_name_that_its_organisation_has_not_used(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        with pytest.raises(errors.NameInvalidError, match="name of an operations team"):
            teams.create_operations_team(session, "\n")
        for owner in (None, customer.organisation):
            teams.create_operations_team(session, "A", organisation_name=owner)
            with pytest.raises(errors.NameTakenError, match="'A' already exists"):
                teams.create_operations_team(session, "A", organisation_name=owner)
        assert session.query(OperationsTeam).filter_by(name="A").count() == 2


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


def test_suppliers_are_listed_by_code_and_their_changes_are_in_the_audit(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        for code in ("T2", "T1"):
            suppliers.create_import_supplier(
                session, code=code, organisation_name=customer.organisation, profile="strict"
            )
        with pytest.raises(errors.NameInvalidError, match="code of an import supplier"):
            suppliers.create_import_supplier(session, code="", organisation_name=customer.organisation)
        suppliers.set_status(session, "T1", SupplierStatus.PAUSED)
        suppliers.set_customer_emails(session, "T1", on=True)
    with sessions() as session:
        listed = [(it.code, owner) for it, owner in suppliers.list_import_suppliers(session)]
        assert sorted(listed) == listed
        assert ("T1", customer.organisation) in listed
        one = suppliers.get_import_supplier(session, "T1", organisation_id=customer.organisation_id)
        assert one == suppliers.get_import_supplier_by_id(session, one.id)
        assert (one.status, one.profile, one.sends_customer_emails) == ("Paused", "strict", True)
        assert (one.organisation_id, one.organisation_name) == (
            customer.organisation_id,
            customer.organisation,
        )
        other = suppliers.get_import_supplier(session, "T2", organisation_id=None)
        assert (other.status, other.sends_customer_emails) == ("Ongoing", False)
        assert other.created_at.tzinfo
        owner = customer.organisation_id
        created = list_told(session, "import_supplier.created")
        assert created[-2:] == [
            ("import_supplier", code, owner, {"profile": "strict"}) for code in ("T2", "T1")
        ]
        assert list_told(session, "import_supplier.status_set") == [
            ("import_supplier", "T1", owner, {"status": "Paused"})
        ]
        assert list_told(session, "import_supplier.customer_emails_set") == [
            ("import_supplier", "T1", owner, {"sends_customer_emails": True})
        ]


def test_a_supplier_has_the_name_of_its_own_organisation_and_limited_keys_see_theirs(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    owners = [customer, make_customer(sessions), make_customer(sessions)]
    with sessions() as session:
        found = [
            suppliers.get_import_supplier(session, it.import_supplier, organisation_id=None) for it in owners
        ]
        assert [it.organisation_name for it in found] == [it.organisation for it in owners]
        limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({found[0].id}))
        with acting_as(limited):
            assert suppliers.find_import_supplier(session, found[0].code, organisation_id=None) == found[0]
            with pytest.raises(errors.PermissionDeniedError):
                suppliers.find_import_supplier(session, found[1].code, organisation_id=None)


def test_a_supplier_of_another_organisation_does_not_exist(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other = make_customer(sessions)
    with sessions.begin() as session:
        find = partial(suppliers.find_import_supplier, session, organisation_id=customer.organisation_id)
        get = partial(suppliers.get_import_supplier, session, organisation_id=customer.organisation_id)
        mine = get(customer.import_supplier)
        assert (mine.code, mine.organisation_name) == (customer.import_supplier, customer.organisation)
        for code in (other.import_supplier, "nothing", "", "\0", "\udcff", "x" * 1000):
            assert find(code) is None
            with pytest.raises(errors.ImportSupplierNotFoundError) as in_path:
                get(code)
            with pytest.raises(errors.ImportSupplierNotFoundInBodyError) as in_body:
                get(code, error=errors.ImportSupplierNotFoundInBodyError)
            assert in_path.value.code == in_body.value.code == "import_supplier_not_found"
            assert in_path.value.detail == in_body.value.detail
            assert re.fullmatch(
                r"Import supplier '.{0,60}' does not exist, or belongs to another organisation\.",
                in_path.value.detail,
            )
        of_another = suppliers.get_import_supplier(session, other.import_supplier, organisation_id=None)
        assert of_another.organisation_id == other.organisation_id
        assert of_another.organisation_name == other.organisation


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


@pytest.mark.parametrize("root", ["s3://bucket/folder", "s3://bucket/folder/", " s3://bucket/folder// "])
def test_a_document_root_has_no_slash_at_its_end(sessions: sessionmaker[Session], root: str) -> None:
    customer = make_customer(sessions, document_root=root)
    with sessions.begin() as session:
        supplier = suppliers.get_import_supplier(session, customer.import_supplier, organisation_id=None)
    assert supplier.document_root == "s3://bucket/folder"


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


@pytest.mark.parametrize("code", ["nothing", "\0"])
def test_the_status_of_an_unknown_supplier_cannot_be_set(sessions: sessionmaker[Session], code: str) -> None:
    with sessions.begin() as session, pytest.raises(errors.ImportSupplierNotFoundError):
        suppliers.set_status(session, code, SupplierStatus.PAUSED)


def test_the_limit_is_250_until_it_is_changed_or_off(sessions: sessionmaker[Session]) -> None:
    with sessions() as session:
        assert get_concurrency_limit(session) == 250
        for limit in (3, None, 250):
            set_concurrency_limit(session, limit)
            assert get_concurrency_limit(session) == limit
        session.rollback()
