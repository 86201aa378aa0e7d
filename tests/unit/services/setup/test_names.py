"""The names of organisations, teams and limits: their form, whose they are, and what the audit keeps."""

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import (
    NameInvalidError,
    NameTakenError,
    OperationsTeamNotFoundError,
    OrganisationNotFoundError,
    PermissionDeniedError,
)
from migration_service.models import OperationsTeam, Organisation
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.setup.names import check_name, is_name, unique_name
from migration_service.services.setup.organisations import (
    create_organisation,
    get_organisation,
    list_organisations,
)
from migration_service.services.setup.suppliers import (
    create_import_supplier,
    find_import_supplier,
    get_import_supplier,
    get_import_supplier_by_id,
    list_import_suppliers,
    set_customer_emails,
    set_status,
)
from migration_service.services.setup.teams import (
    create_operations_team,
    get_operations_team_id,
    list_operations_teams,
)
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
        with pytest.raises(NameInvalidError, match="The name of a thing must have 1 to 128 printable"):
            check_name(text, "name of a thing")


def test_a_name_is_in_its_normal_form() -> None:
    with pytest.raises(NameInvalidError, match=r"The name of a thing .* is not in its normal form"):
        check_name("A\u030abo", "name of a thing")


def test_only_the_constraint_of_the_name_says_that_it_is_taken(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions() as session:
        with (
            pytest.raises(NameTakenError, match="taken"),
            unique_name(session, "uq_organisation_name", "taken"),
        ):
            session.add(Organisation(name=customer.organisation))
        with pytest.raises(IntegrityError), unique_name(session, "another", "taken"):
            session.add(Organisation(name=customer.organisation))
        # The session stays usable.
        assert get_organisation(session, customer.organisation).id == customer.organisation_id


def test_organisations_are_created_found_and_listed_by_name(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        made = [create_organisation(session, name) for name in ("Zuid", "Noord")]
        assert [it.name for it in made] == ["Zuid", "Noord"]
        with pytest.raises(NameInvalidError, match="name of an organisation"):
            create_organisation(session, "")
        with pytest.raises(NameTakenError, match="'Zuid' already exists"):
            create_organisation(session, "Zuid")
    with sessions() as session:
        assert get_organisation(session, "Noord").id == made[1].id
        assert [it.name for it in list_organisations(session)] == ["Noord", "Zuid"]
        assert list_told(session, "organisation.created") == [
            ("organisation", it.name, it.id, None) for it in made
        ]
        for name in ("nobody", "", "\0"):
            with pytest.raises(OrganisationNotFoundError):
                get_organisation(session, name)


def test_a_team_is_that_of_the_organisation_or_else_a_shared_one(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other = make_customer(sessions)
    with sessions.begin() as session:
        theirs = create_operations_team(session, "A", organisation_name=other.organisation)
        shared = create_operations_team(session, "A")
        own = create_operations_team(session, "A", organisation_name=customer.organisation)
        foreign = create_operations_team(session, "B", organisation_name=other.organisation)
        assert {theirs.organisation_id, own.organisation_id, shared.organisation_id} == {
            other.organisation_id,
            customer.organisation_id,
            None,
        }
    with sessions() as session:
        find = get_operations_team_id
        assert find(session, customer.organisation_id, "A") == own.id
        assert find(session, other.organisation_id, "A") == theirs.id
        assert find(session, 0, "A") == shared.id
        assert find(session, other.organisation_id, "B") == foreign.id
        for organisation_id, name in ((customer.organisation_id, "B"), (0, "nobody"), (0, None)):
            with pytest.raises(OperationsTeamNotFoundError):
                find(session, organisation_id, name)
        assert [(team.id, owner) for team, owner in list_operations_teams(session)][:4] == [
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
        with pytest.raises(NameInvalidError, match="name of an operations team"):
            create_operations_team(session, "\n")
        for owner in (None, customer.organisation):
            create_operations_team(session, "A", organisation_name=owner)
            with pytest.raises(NameTakenError, match="'A' already exists"):
                create_operations_team(session, "A", organisation_name=owner)
        assert session.query(OperationsTeam).filter_by(name="A").count() == 2


def test_suppliers_are_listed_by_code_and_their_changes_are_in_the_audit(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session:
        for code in ("T2", "T1"):
            create_import_supplier(
                session, code=code, organisation_name=customer.organisation, profile="strict"
            )
        with pytest.raises(NameInvalidError, match="code of an import supplier"):
            create_import_supplier(session, code="", organisation_name=customer.organisation)
        set_status(session, "T1", SupplierStatus.PAUSED)
        set_customer_emails(session, "T1", on=True)
    with sessions() as session:
        listed = [(it.code, owner) for it, owner in list_import_suppliers(session)]
        assert sorted(listed) == listed
        assert ("T1", customer.organisation) in listed
        one = get_import_supplier(session, "T1", organisation_id=customer.organisation_id)
        assert one == get_import_supplier_by_id(session, one.id)
        assert (one.status, one.profile, one.sends_customer_emails) == ("Paused", "strict", True)
        assert (one.organisation_id, one.organisation_name) == (
            customer.organisation_id,
            customer.organisation,
        )
        other = get_import_supplier(session, "T2", organisation_id=None)
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
        found = [get_import_supplier(session, it.import_supplier, organisation_id=None) for it in owners]
        assert [it.organisation_name for it in found] == [it.organisation for it in owners]
        limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({found[0].id}))
        with acting_as(limited):
            assert find_import_supplier(session, found[0].code, organisation_id=None) == found[0]
            with pytest.raises(PermissionDeniedError):
                find_import_supplier(session, found[1].code, organisation_id=None)
