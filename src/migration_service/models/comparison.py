"""Comparisons of what was sent with what was created, which workers do in pieces; what was accepted of them;
and certificates, with the leaves of their accounts.
"""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Identity, LargeBinary, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from migration_service.db.base import Base
from migration_service.models.batch import Batch
from migration_service.models.operation import ImportSupplier, Organisation


class Comparison(Base):
    """A comparison of a supplier's book, or of one batch. The newest one that has ended is kept."""

    __tablename__ = "comparison"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    #: The batch whose lines are compared, or None for everything that the supplier sent.
    batch_id: Mapped[UUID | None] = mapped_column(ForeignKey(Batch.id))
    #: Its moment: nothing that was created later is known to be compared.
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    #: Whether accounts are compared even if no row of theirs has changed since the comparison that is kept.
    is_full: Mapped[bool] = mapped_column(server_default=text("false"))
    #: When a message was last published for it, or a worker last did a piece of it.
    dispatched_at: Mapped[datetime | None]
    #: What is compared next (a value of `comparisons.Stage`), and after which place. None at its beginning.
    stage: Mapped[str]
    place: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    #: The number of accounts and lines to compare, as known at its start, and of those compared.
    items: Mapped[int]
    done: Mapped[int] = mapped_column(server_default="0")
    #: The sums so far: a `differences.Totals`.
    totals: Mapped[dict[str, Any]] = mapped_column(server_default="{}")


class ComparedAccount(Base):
    """An account that differed, with what differed. It is removed with its comparison."""

    __tablename__ = "compared_account"

    comparison_id: Mapped[UUID] = mapped_column(
        ForeignKey(Comparison.id, ondelete="CASCADE"), primary_key=True
    )
    #: Its place among those that differ, from 1.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    external_account_number: Mapped[str]
    #: A `differences.AccountDifference` as JSON. It is text, so that numbers stay as they were written.
    found: Mapped[str]


class ReceiptException(Base):
    """Something that a comparison left open and a person accepted. It is removed with its comparison."""

    __tablename__ = "receipt_exception"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    comparison_id: Mapped[UUID] = mapped_column(ForeignKey(Comparison.id, ondelete="CASCADE"))
    #: A value of Problem, and how many accounts, lines, measures or files it concerned.
    problem: Mapped[str]
    number: Mapped[int]
    #: The differing account, or None for all that the problem concerned.
    external_account_number: Mapped[str | None]
    #: The reason, without personal data, and the person or API key that accepted it.
    reason: Mapped[str]
    accepted_by: Mapped[str]
    #: The operator or API key that was authenticated, whatever name was given.
    accepted_as: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ComparedPiece(Base):
    """The sums of some accounts of which none differed. It is removed with its comparison."""

    __tablename__ = "compared_piece"

    comparison_id: Mapped[UUID] = mapped_column(
        ForeignKey(Comparison.id, ondelete="CASCADE"), primary_key=True
    )
    #: A hash of the versions of all rows that were compared.
    version: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    #: A `differences.Totals`.
    totals: Mapped[dict[str, Any]]


class OldFigures(Base):
    """The newest file with the old system's figures of a supplier's accounts."""

    __tablename__ = "old_figures"

    import_supplier_id: Mapped[int] = mapped_column(
        ForeignKey(ImportSupplier.id), primary_key=True, autoincrement=False
    )
    #: Another one for each file. A comparison begins its figures again if it changes.
    upload_id: Mapped[UUID]
    file_name: Mapped[str | None]
    file_sha256: Mapped[bytes] = mapped_column(LargeBinary)
    file_bytes: Mapped[int]
    accounts: Mapped[int]
    #: The difference in euros, and in days, that is no problem.
    tolerance: Mapped[Decimal]
    tolerance_days: Mapped[int]
    uploaded_at: Mapped[datetime] = mapped_column(server_default=func.now())
    uploaded_by: Mapped[str]


class OldFigure(Base):
    """A line of the file: what the old system says of an account.

    It has no foreign key, because a million lines are inserted with one COPY.
    """

    __tablename__ = "old_figure"

    import_supplier_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    line_number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    external_account_number: Mapped[str]
    #: The values by `states.Figure`.
    figures: Mapped[dict[str, Any]]


class FigureDifference(Base):
    """A figure of the old system that an account does not have. It is removed with its comparison."""

    __tablename__ = "figure_difference"

    comparison_id: Mapped[UUID] = mapped_column(
        ForeignKey(Comparison.id, ondelete="CASCADE"), primary_key=True
    )
    #: Its place among those that differ, from 1.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    external_account_number: Mapped[str]
    figure: Mapped[str]
    ledger_code: Mapped[str | None]
    #: The values as texts. None for one that does not exist.
    old: Mapped[str | None]
    created: Mapped[str | None]
    bucket: Mapped[str]
    is_tolerated: Mapped[bool]


class ComparedLine(Base):
    """A line of which nothing is staged, until a comparison has added up what it has."""

    __tablename__ = "compared_line"

    comparison_id: Mapped[UUID] = mapped_column(
        ForeignKey(Comparison.id, ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    batch_id: Mapped[UUID]
    line_number: Mapped[int]
    status: Mapped[str]
    is_acknowledged: Mapped[bool]


class Acknowledgement(Base):
    """A record that an account or an unnumbered line is knowingly not imported.

    It covers the versions sent by then. A version sent and refused later is open again.
    """

    __tablename__ = "acknowledgement"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    #: The account, or None if the line has no number.
    external_account_number: Mapped[str | None]
    #: The line, if it has no number. No foreign key: the acknowledgement outlives the line.
    batch_id: Mapped[UUID | None]
    line_number: Mapped[int | None]
    reason: Mapped[str]
    #: The name given by an operator, or the prefix of an API key.
    acknowledged_by: Mapped[str]
    acknowledged_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AcceptedWarning(Base):
    """A warning before a wave or go-live that a person accepted, for as long as it says the same."""

    __tablename__ = "accepted_warning"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    readiness_check: Mapped[str]
    #: The sentence that it said.
    found: Mapped[str]
    reason: Mapped[str]
    accepted_by: Mapped[str]
    accepted_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Certificate(Base):
    """A certificate of a supplier's book, or of the accounts of one batch, which workers make in pieces."""

    __tablename__ = "certificate"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    organisation_id: Mapped[int] = mapped_column(ForeignKey(Organisation.id))
    import_supplier_id: Mapped[int] = mapped_column(ForeignKey(ImportSupplier.id))
    batch_id: Mapped[UUID | None] = mapped_column(ForeignKey(Batch.id))
    requested_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    #: When a message was last published for it, or a worker last did a piece of it.
    dispatched_at: Mapped[datetime | None]
    #: After which account or line the next piece begins. None at its beginning.
    place: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    accounts: Mapped[int] = mapped_column(server_default="0")
    #: How many of them the platform owned.
    owned: Mapped[int] = mapped_column(server_default="0")
    #: The lines before those of the accounts: head, signature and parts. None until it has ended.
    beginning: Mapped[str | None]


class CertificateLeaf(Base):
    """An account of a certificate. After an erasure only its leaf is left, and its numbers.

    It has no foreign key, because a million are inserted.
    """

    __tablename__ = "certificate_leaf"

    certificate_id: Mapped[UUID] = mapped_column(primary_key=True)
    #: Its place in the certificate, from 1.
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    external_account_number: Mapped[str]
    leaf: Mapped[bytes] = mapped_column(LargeBinary)
    #: Of the last account of each subtree, the root of that.
    subtree: Mapped[bytes | None] = mapped_column(LargeBinary)
    #: What the leaf is the hash of: the numbers, the salted hashes and the salt.
    entry: Mapped[str | None]
