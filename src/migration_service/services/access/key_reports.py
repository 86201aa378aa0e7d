"""What an organisation is told about the API key that it uses."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import ImportSupplier, Organisation
from migration_service.services.access.api_keys import get_api_key


@dataclass(frozen=True, slots=True)
class ApiKeyReport:
    """An API key with the names of what it belongs to and is limited to. None stands for no limit."""

    api_key: str
    api_key_name: str | None
    organisation: str
    scopes: list[str] | None
    import_suppliers: list[str] | None
    allowed_networks: list[str] | None
    expires_at: datetime | None


def report_api_key(session: Session, prefix: str) -> ApiKeyReport:
    """Return the report of the key with this prefix. Raise ApiKeyNotFoundError."""
    key = get_api_key(session, prefix)
    codes = None
    if key.import_supplier_ids is not None:
        codes = session.scalars(
            select(ImportSupplier.code)
            .where(ImportSupplier.id.in_(key.import_supplier_ids))
            .order_by(ImportSupplier.code)
        ).all()
    return ApiKeyReport(
        api_key=key.prefix,
        api_key_name=key.name,
        organisation=session.get_one(Organisation, key.organisation_id).name,
        scopes=key.scopes,
        import_suppliers=None if codes is None else list(codes),
        allowed_networks=key.allowed_networks,
        expires_at=key.expires_at,
    )
