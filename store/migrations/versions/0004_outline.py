"""The course of a run that an answer of the model counts for."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ledger", sa.Column("outline", sa.String(length=64), nullable=True))


def downgrade() -> None:
    op.drop_column("ledger", "outline")
