"""What staging stores, and how it is found again."""

import pytest
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from migration_service.db.statements import autocommit
from migration_service.errors import AccountFailedValidationError
from migration_service.schemas.json import encode_json, parse_json
from migration_service.services.imports.staging import find_process, stage_account
from migration_service.services.imports.validation import validate_account
from migration_service.services.setup.suppliers import KnownSupplier, get_import_supplier
from migration_service.states import Profile
from supplier_client import SupplierClient


def _known(session: Session, supplier: SupplierClient) -> KnownSupplier:
    return get_import_supplier(session, supplier.code, organisation_id=None)


def test_an_account_is_found_by_its_supplier_and_number_without_its_payload(supplier: SupplierClient) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    first, second = supplier.accounts(2)
    number = first["external_account_number"]
    for account in (first, second):
        supplier.stage(account)
    other.stage(other.accounts()[0] | {"external_account_number": number})
    with supplier.Session() as session:
        suppliers = [_known(session, it).id for it in (supplier, other)]
        found = [find_process(session, it, number) for it in suppliers]
        assert [(it.import_supplier_id, it.external_account_number) for it in found if it] == [
            (it, number) for it in suppliers
        ]
        assert find_process(session, suppliers[1], second["external_account_number"]) is None
        with pytest.raises(InvalidRequestError):
            found[0].payload  # type: ignore[union-attr]  # noqa: B018


def test_an_invalid_payload_is_not_stored(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    with supplier.Session() as session:
        known = _known(session, supplier)
    invalid = validate_account(parse_json(encode_json(account | {"customers": []})), Profile.LENIENT)
    with pytest.raises(AccountFailedValidationError), autocommit(supplier.Session) as statements:
        stage_account(statements, known, invalid)
    assert supplier.status(account["external_account_number"]).status_code == 404
