"""The user and password of webhooks that are queues

Revision ID: 0035
Revises: 0034
"""

from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.execute("ALTER TABLE webhook_endpoint ADD COLUMN credentials text")


def downgrade() -> None:
    op.execute("ALTER TABLE webhook_endpoint DROP COLUMN credentials")
