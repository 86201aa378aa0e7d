"""Acknowledgements that are found by their account or line

Revision ID: 0030
Revises: 0029
"""

from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX IF NOT EXISTS ix_acknowledgement_item "
        "ON acknowledgement (import_supplier_id, external_account_number, batch_id, line_number)"
    )
    op.execute("DROP INDEX IF EXISTS ix_acknowledgement_import_supplier_id")


def downgrade() -> None:
    op.execute("CREATE INDEX ix_acknowledgement_import_supplier_id ON acknowledgement (import_supplier_id)")
    op.execute("DROP INDEX ix_acknowledgement_item")
