"""E-mails to the people who run a migration

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_NOW = sa.text("now()")


def upgrade() -> None:
    op.create_table(
        "alert_email",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("next_try_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("failures", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(state = 'SENT') = (sent_at IS NOT NULL)", name=op.f("ck_alert_email_sent_at")),
        sa.CheckConstraint("state IN ('PENDING', 'SENT', 'REFUSED')", name=op.f("ck_alert_email_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_email")),
        sa.UniqueConstraint("event", "recipient", name=op.f("uq_alert_email_event_recipient")),
    )
    op.create_index(
        "ix_alert_email_due",
        "alert_email",
        ["next_try_at"],
        postgresql_where=sa.text("state = 'PENDING'"),
    )


def downgrade() -> None:
    op.drop_table("alert_email")
