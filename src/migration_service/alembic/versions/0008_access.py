"""Keys with limits, sessions, operators, and who owns a team or a vendor

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "operator",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_login_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('read', 'operate', 'administer')", name=op.f("ck_operator_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operator")),
        sa.UniqueConstraint("name", name=op.f("uq_operator_name")),
    )
    op.create_table(
        "operator_organisation",
        sa.Column("operator_id", sa.BigInteger(), nullable=False),
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["operator_id"],
            ["operator.id"],
            name=op.f("fk_operator_organisation_operator_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_operator_organisation_organisation_id")
        ),
        sa.PrimaryKeyConstraint("operator_id", "organisation_id", name=op.f("pk_operator_organisation")),
    )
    op.create_table(
        "token_session",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("api_key_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_reason", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_key.id"], name=op.f("fk_token_session_api_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token_session")),
    )
    op.create_index(op.f("ix_token_session_api_key_id"), "token_session", ["api_key_id"], unique=False)
    op.create_index(op.f("ix_token_session_expires_at"), "token_session", ["expires_at"], unique=False)
    op.create_table(
        "refresh_token",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token_session_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("successor_id", sa.Uuid(), nullable=True),
        sa.ForeignKeyConstraint(
            ["token_session_id"],
            ["token_session.id"],
            name=op.f("fk_refresh_token_token_session_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refresh_token")),
    )
    op.create_index(
        op.f("ix_refresh_token_token_session_id"), "refresh_token", ["token_session_id"], unique=False
    )
    op.add_column("api_key", sa.Column("name", sa.Text(), nullable=True))
    op.add_column("api_key", sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=True))
    op.add_column("api_key", sa.Column("import_supplier_ids", sa.ARRAY(sa.BigInteger()), nullable=True))
    op.add_column("api_key", sa.Column("allowed_networks", sa.ARRAY(sa.Text()), nullable=True))
    op.add_column("api_key", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("operations_team", sa.Column("organisation_id", sa.BigInteger(), nullable=True))
    op.drop_constraint(op.f("uq_operations_team_name"), "operations_team", type_="unique")
    op.create_unique_constraint(
        op.f("uq_operations_team_organisation_id_name"), "operations_team", ["organisation_id", "name"]
    )
    op.create_index(
        "uq_operations_team_shared",
        "operations_team",
        ["name"],
        unique=True,
        postgresql_where=sa.text("organisation_id IS NULL"),
    )
    op.create_foreign_key(
        op.f("fk_operations_team_organisation_id"),
        "operations_team",
        "organisation",
        ["organisation_id"],
        ["id"],
    )
    op.add_column("payment_instruction", sa.Column("customer_reference", sa.Text(), nullable=True))
    op.add_column("payment_instruction", sa.Column("account_reference", sa.Text(), nullable=True))
    op.create_index(
        "ix_payment_instruction_customer",
        "payment_instruction",
        ["payment_vendor_pk", "customer_reference"],
        unique=False,
    )
    op.add_column("payment_vendor", sa.Column("organisation_id", sa.BigInteger(), nullable=True))
    op.drop_constraint(op.f("uq_payment_vendor_name"), "payment_vendor", type_="unique")
    op.create_unique_constraint(
        op.f("uq_payment_vendor_organisation_id_name"), "payment_vendor", ["organisation_id", "name"]
    )
    op.create_index(
        "uq_payment_vendor_shared",
        "payment_vendor",
        ["name"],
        unique=True,
        postgresql_where=sa.text("organisation_id IS NULL"),
    )
    op.create_foreign_key(
        op.f("fk_payment_vendor_organisation_id"),
        "payment_vendor",
        "organisation",
        ["organisation_id"],
        ["id"],
    )


def downgrade() -> None:
    op.drop_constraint(op.f("fk_payment_vendor_organisation_id"), "payment_vendor", type_="foreignkey")
    op.drop_index(
        "uq_payment_vendor_shared",
        table_name="payment_vendor",
        postgresql_where=sa.text("organisation_id IS NULL"),
    )
    op.drop_constraint(op.f("uq_payment_vendor_organisation_id_name"), "payment_vendor", type_="unique")
    op.create_unique_constraint(op.f("uq_payment_vendor_name"), "payment_vendor", ["name"])
    op.drop_column("payment_vendor", "organisation_id")
    op.drop_index("ix_payment_instruction_customer", table_name="payment_instruction")
    op.drop_column("payment_instruction", "account_reference")
    op.drop_column("payment_instruction", "customer_reference")
    op.drop_constraint(op.f("fk_operations_team_organisation_id"), "operations_team", type_="foreignkey")
    op.drop_index(
        "uq_operations_team_shared",
        table_name="operations_team",
        postgresql_where=sa.text("organisation_id IS NULL"),
    )
    op.drop_constraint(op.f("uq_operations_team_organisation_id_name"), "operations_team", type_="unique")
    op.create_unique_constraint(op.f("uq_operations_team_name"), "operations_team", ["name"])
    op.drop_column("operations_team", "organisation_id")
    op.drop_column("api_key", "expires_at")
    op.drop_column("api_key", "allowed_networks")
    op.drop_column("api_key", "import_supplier_ids")
    op.drop_column("api_key", "scopes")
    op.drop_column("api_key", "name")
    op.drop_index(op.f("ix_refresh_token_token_session_id"), table_name="refresh_token")
    op.drop_table("refresh_token")
    op.drop_index(op.f("ix_token_session_expires_at"), table_name="token_session")
    op.drop_index(op.f("ix_token_session_api_key_id"), table_name="token_session")
    op.drop_table("token_session")
    op.drop_table("operator_organisation")
    op.drop_table("operator")
