"""The account and its customers."""

from datetime import date, datetime

from sqlalchemy import ForeignKey, Identity, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.imports import AccountImportProcess
from migration_service.models.operation import ImportSupplier, OperationsTeam
from migration_service.models.part import Part, Source, parent_key, value_at


class Account(Base):
    """A customer account of the platform, created from one staged payload."""

    __tablename__ = "account"
    __table_args__ = (
        UniqueConstraint("import_supplier_id", "external_account_number", name="uq_account_pair"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    service_account_number: Mapped[str] = mapped_column(unique=True)
    account_import_process_id: Mapped[int] = mapped_column(ForeignKey(AccountImportProcess.id), unique=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    operations_team_id: Mapped[int] = mapped_column(ForeignKey(OperationsTeam.id))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    external_account_number: Mapped[str]
    unknown_occupier: Mapped[bool]
    billing_address1: Mapped[str | None]
    billing_address2: Mapped[str | None]
    billing_address3: Mapped[str | None]
    billing_address4: Mapped[str | None]
    billing_postcode: Mapped[str | None]
    #: When all personal data was erased. The numbers and the amounts are kept.
    erased_at: Mapped[datetime | None] = mapped_column(info={"later": True})
    #: When it goes live before its supplier, after which it cannot be undone, and the person who decided.
    live_at: Mapped[datetime | None] = mapped_column(info={"later": True})
    live_by: Mapped[str | None] = mapped_column(info={"later": True})


class Customer(Part):
    """A person of the account."""

    __tablename__ = "customer"
    sources = (Source(Account, "customers"),)

    account_pk: Mapped[int] = parent_key(Account)
    given_name: Mapped[str | None]
    family_name: Mapped[str | None]
    email: Mapped[str | None]
    mobile: Mapped[str | None]
    landline: Mapped[str | None]
    date_of_birth: Mapped[date | None]
    opted_into_updates: Mapped[bool | None] = value_at("customer_preferences", "opted_into_updates")
    opted_into_offers: Mapped[bool | None] = value_at("customer_preferences", "opted_into_offers")
    opted_into_sms: Mapped[bool | None] = value_at("customer_preferences", "opted_into_sms")


class UserDetail(Part):
    """A value that the supplier keeps for a customer, in a namespace chosen by the supplier."""

    __tablename__ = "user_detail"
    sources = (Source(Customer, "user_details"),)

    customer_pk: Mapped[int] = parent_key(Customer)
    namespace: Mapped[str]
    value: Mapped[str]
