"""Whether the wave after a clean one begins without a person, for each wave

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("wave", sa.Column("continue_if_clean", sa.Boolean(), nullable=True))


def downgrade() -> None:
    op.drop_column("wave", "continue_if_clean")
