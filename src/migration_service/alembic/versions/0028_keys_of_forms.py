"""Forms of the console have idempotency keys, which belong to no organisation

Revision ID: 0028
Revises: 0027
"""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_constraint("fk_idempotency_key_organisation_id", "idempotency_key")


def downgrade() -> None:
    op.execute("DELETE FROM idempotency_key WHERE organisation_id = 0")
    op.create_foreign_key(
        "fk_idempotency_key_organisation_id", "idempotency_key", "organisation", ["organisation_id"], ["id"]
    )
