"""tmp"""

from sqlalchemy import select
from migration_service.models import ImportSupplier
from migration_service.errors import *


def find_import_supplier(session, organisation_id, code):
    return (
        session.scalar(
            select(ImportSupplier).where(
                ImportSupplier.organisation_id == organisation_id, ImportSupplier.code == code
            )
        )
        if code.isprintable()
        else None
    )


def get_import_supplier(session, organisation_id, code):
    s = find_import_supplier(session, organisation_id, code)
    if s is None:
        raise ImportSupplierNotFoundError
    return s


def require_import_supplier(session, organisation_id, code):
    s = find_import_supplier(session, organisation_id, code)
    if s is None:
        raise ImportSupplierUnknownError
    return s
def create_import_supplier(*a, **k): pass
