"""Runs that are to go, and who keeps them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "expiries",
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("marked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("kept_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "run_id"),
    )


def downgrade() -> None:
    op.drop_table("expiries")
