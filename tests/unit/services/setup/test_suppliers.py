"""Import suppliers: their organisations, their codes, and changes by operators."""

import re
from functools import partial

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import (
    ImportSupplierNotFoundError,
    ImportSupplierNotFoundInBodyError,
    NameInvalidError,
    NameTakenError,
    OrganisationNotFoundError,
    PermissionDeniedError,
)
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.setup.limits import get_concurrency_limit, set_concurrency_limit
from migration_service.services.setup.suppliers import (
    MAX_CODE,
    create_import_supplier,
    find_import_supplier,
    get_import_supplier,
    require_supplier_allowed,
    set_status,
)
from migration_service.states import SupplierStatus
from support.factories import Customer, make_customer


def test_a_supplier_of_another_organisation_does_not_exist(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other = make_customer(sessions)
    with sessions.begin() as session:
        find = partial(find_import_supplier, session, organisation_id=customer.organisation_id)
        get = partial(get_import_supplier, session, organisation_id=customer.organisation_id)
        mine = get(customer.import_supplier)
        assert (mine.code, mine.organisation_name) == (customer.import_supplier, customer.organisation)
        for code in (other.import_supplier, "nothing", "", "\0", "\udcff", "x" * 1000):
            assert find(code) is None
            with pytest.raises(ImportSupplierNotFoundError) as in_path:
                get(code)
            with pytest.raises(ImportSupplierNotFoundInBodyError) as in_body:
                get(code, error=ImportSupplierNotFoundInBodyError)
            assert in_path.value.code == in_body.value.code == "import_supplier_not_found"
            assert in_path.value.detail == in_body.value.detail
            assert re.fullmatch(
                r"Import supplier '.{0,60}' does not exist, or belongs to another organisation\.",
                in_path.value.detail,
            )
        of_another = get_import_supplier(session, other.import_supplier, organisation_id=None)
        assert of_another.organisation_id == other.organisation_id
        assert of_another.organisation_name == other.organisation


@pytest.mark.parametrize("code", ["Noord & Zuid", "Åbo 1", "a" * MAX_CODE, "50%", "..."])
def test_a_code_may_be_any_printable_text(
    sessions: sessionmaker[Session], customer: Customer, code: str
) -> None:
    with sessions.begin() as session:
        supplier = create_import_supplier(session, code=code, organisation_name=customer.organisation)
        assert (supplier.status, supplier.profile, supplier.document_root) == ("Ongoing", "lenient", "")
        found = find_import_supplier(session, code, organisation_id=customer.organisation_id)
        assert found is not None
        assert found.id == supplier.id
        session.rollback()


@pytest.mark.parametrize("code", ["", " a", "a\n", "a/b", ".", "..", "a" * (MAX_CODE + 1), "\u200b"])
def test_a_code_that_cannot_be_part_of_a_path_is_refused(
    sessions: sessionmaker[Session], customer: Customer, code: str
) -> None:
    with sessions.begin() as session, pytest.raises(NameInvalidError):
        create_import_supplier(session, code=code, organisation_name=customer.organisation)


def test_a_code_is_unique_across_organisations(sessions: sessionmaker[Session], customer: Customer) -> None:
    other = make_customer(sessions)
    with sessions.begin() as session, pytest.raises(NameTakenError, match=customer.import_supplier):
        create_import_supplier(session, code=customer.import_supplier, organisation_name=other.organisation)


def test_a_supplier_needs_an_organisation(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session, pytest.raises(OrganisationNotFoundError):
        create_import_supplier(session, code="X", organisation_name="nobody")


@pytest.mark.parametrize("root", ["s3://bucket/folder", "s3://bucket/folder/", " s3://bucket/folder// "])
def test_a_document_root_has_no_slash_at_its_end(sessions: sessionmaker[Session], root: str) -> None:
    customer = make_customer(sessions, document_root=root)
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
    assert supplier.document_root == "s3://bucket/folder"


def test_a_document_root_has_no_control_characters(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    with sessions.begin() as session, pytest.raises(NameInvalidError):
        create_import_supplier(
            session, code="X", organisation_name=customer.organisation, document_root="s3://a\nb"
        )


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (ActorKind.API_KEY, "The API key may not be used for import supplier 'X'."),
        (ActorKind.OPERATOR, "You may not use import supplier 'X'."),
    ],
)
def test_who_is_limited_to_other_suppliers_is_told_so(kind: ActorKind, detail: str) -> None:
    with acting_as(Origin(kind=kind, import_supplier_ids=frozenset({1}))):
        require_supplier_allowed(1, "X")
        with pytest.raises(PermissionDeniedError) as denied:
            require_supplier_allowed(2, "X")
    assert denied.value.detail == detail


@pytest.mark.parametrize("code", ["nothing", "\0"])
def test_the_status_of_an_unknown_supplier_cannot_be_set(sessions: sessionmaker[Session], code: str) -> None:
    with sessions.begin() as session, pytest.raises(ImportSupplierNotFoundError):
        set_status(session, code, SupplierStatus.PAUSED)


def test_the_limit_is_250_until_it_is_changed_or_off(sessions: sessionmaker[Session]) -> None:
    with sessions() as session:
        assert get_concurrency_limit(session) == 250
        for limit in (3, None, 250):
            set_concurrency_limit(session, limit)
            assert get_concurrency_limit(session) == limit
        session.rollback()
