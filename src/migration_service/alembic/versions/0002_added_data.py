"""What is added to an account after its creation: notes, payment instructions, statements, e-mails

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "payment_vendor",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret_env", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("kind IN ('http', 'stripe')", name=op.f("ck_payment_vendor_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payment_vendor")),
        sa.UniqueConstraint("name", name=op.f("uq_payment_vendor_name")),
    )
    op.create_table(
        "note",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("documents", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("unpin_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("sameness_sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["account_pk"], ["account.id"], name=op.f("fk_note_account_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_note")),
        sa.UniqueConstraint("account_pk", "sameness_sha256", "created_at", name="uq_note_same"),
    )
    op.create_table(
        "payment_instruction",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("payment_vendor_pk", sa.BigInteger(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_pk"], ["account.id"], name=op.f("fk_payment_instruction_account_pk")
        ),
        sa.ForeignKeyConstraint(
            ["payment_vendor_pk"],
            ["payment_vendor.id"],
            name=op.f("fk_payment_instruction_payment_vendor_pk"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payment_instruction")),
        sa.UniqueConstraint(
            "account_pk", "payment_vendor_pk", "reference", "type", name="uq_payment_instruction_same"
        ),
    )
    op.create_table(
        "customer_email",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("customer_pk", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("next_try_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state = 'SENT') = (sent_at IS NOT NULL)", name=op.f("ck_customer_email_sent_at")
        ),
        sa.CheckConstraint("state IN ('PENDING', 'SENT', 'REFUSED')", name=op.f("ck_customer_email_state")),
        sa.ForeignKeyConstraint(["customer_pk"], ["customer.id"], name=op.f("fk_customer_email_customer_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_customer_email")),
        sa.UniqueConstraint("customer_pk", name=op.f("uq_customer_email_customer_pk")),
    )
    op.create_index(
        "ix_customer_email_due",
        "customer_email",
        ["next_try_at"],
        unique=False,
        postgresql_where=sa.text("state = 'PENDING'"),
    )
    op.add_column(
        "import_supplier",
        sa.Column("sends_customer_emails", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column("statement", sa.Column("origin", sa.Text(), server_default="PAYLOAD", nullable=False))
    op.create_check_constraint(op.f("ck_statement_origin"), "statement", "origin IN ('PAYLOAD', 'ADDED')")


def downgrade() -> None:
    op.drop_constraint(op.f("ck_statement_origin"), "statement", type_="check")
    op.drop_column("statement", "origin")
    op.drop_column("import_supplier", "sends_customer_emails")
    op.drop_index("ix_customer_email_due", table_name="customer_email")
    op.drop_table("customer_email")
    op.drop_table("payment_instruction")
    op.drop_table("note")
    op.drop_table("payment_vendor")
