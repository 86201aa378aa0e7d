"""Lists of deliveries that are pending or have failed, and deliveries that are due one after the other

Revision ID: 0036
Revises: 0035
"""

from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.execute("""
        CREATE INDEX IF NOT EXISTS ix_webhook_delivery_undelivered ON webhook_delivery (endpoint_id, id)
            WHERE state <> 'DELIVERED';
        ALTER TABLE webhook_delivery ALTER COLUMN next_attempt_at SET DEFAULT clock_timestamp();
    """)


def downgrade() -> None:
    op.execute("""
        ALTER TABLE webhook_delivery ALTER COLUMN next_attempt_at SET DEFAULT now();
        DROP INDEX ix_webhook_delivery_undelivered;
    """)
