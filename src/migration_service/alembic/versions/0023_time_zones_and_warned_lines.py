"""The time zone of an import supplier, and the lines of a chunk by their warnings

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

# What revision 0017 watches, and the new column.
_WATCHED = "id, organisation_id, code, status, profile, document_root, sends_customer_emails, created_at"

# Web processes look for the trigger. Both statements are in one transaction, so it is never missing.
_TRIGGER = """
    DROP TRIGGER reference_changed ON import_supplier;
    CREATE TRIGGER reference_changed AFTER UPDATE OF {columns} OR DELETE OR TRUNCATE ON import_supplier
        FOR EACH STATEMENT EXECUTE FUNCTION reference_changed()
"""


def upgrade() -> None:
    op.add_column(
        "import_supplier",
        sa.Column("time_zone", sa.Text(), server_default="Europe/Amsterdam", nullable=False),
    )
    op.execute(_TRIGGER.format(columns=f"{_WATCHED}, time_zone"))
    op.add_column("batch_chunk", sa.Column("warned", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("batch_chunk", "warned")
    op.execute(_TRIGGER.format(columns=_WATCHED))
    op.drop_column("import_supplier", "time_zone")
