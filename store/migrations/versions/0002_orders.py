"""Orders and customers of the shop."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "customers",
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("id", sa.String(length=100), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("since", sa.String(length=10), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "id"),
    )
    op.create_table(
        "orders",
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("id", sa.String(length=100), nullable=False),
        sa.Column("customer_id", sa.String(length=100), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("charge", sa.String(length=255), nullable=True),
        sa.Column("items", sa.Text(), nullable=False),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "id"),
        sa.ForeignKeyConstraint(
            ["namespace", "customer_id"], ["customers.namespace", "customers.id"], name="orders_of_a_customer"
        ),
    )
    op.create_index("orders_by_customer", "orders", ["namespace", "customer_id"], unique=False)


def downgrade() -> None:
    for table in ("orders", "customers"):
        op.drop_table(table)
