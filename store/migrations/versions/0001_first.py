"""The first tables: ledger, claims, sources, tasks and their journal."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

HOLDING = sa.text("holds IS NOT NULL AND status IN ('begun', 'unknown', 'done')")


def upgrade() -> None:
    op.create_table(
        "claims",
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=False),
        sa.Column("first_execution_run_id", sa.String(length=100), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "run_id"),
    )
    op.create_table(
        "ledger",
        sa.Column("key", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("action_id", sa.String(length=100), nullable=True),
        sa.Column("arguments", sa.Text(), nullable=True),
        sa.Column("intent", sa.Text(), nullable=True),
        sa.Column("holds", sa.Text(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("usage", sa.Text(), nullable=True),
        sa.Column("possibly_paid", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("ledger_by_run", "ledger", ["namespace", "run_id"], unique=False)
    op.create_index(
        "ledger_one_holder",
        "ledger",
        ["namespace", "holds"],
        unique=True,
        sqlite_where=HOLDING,
        postgresql_where=HOLDING,
    )
    op.create_table(
        "sources",
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=False),
        sa.Column("inbox", sa.Text(), nullable=True),
        sa.Column("calendar", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "run_id"),
    )
    op.create_table(
        "task_commits",
        sa.Column("idempotency_key", sa.String(length=100), nullable=False),
        sa.Column("operation", sa.String(length=20), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.Integer(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("idempotency_key"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("due", sa.String(length=10), nullable=True),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.String(length=100), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("idempotency_key"),
        sa.UniqueConstraint("namespace", "source_id", name="tasks_one_per_source"),
    )


def downgrade() -> None:
    for table in ("tasks", "task_commits", "sources", "ledger", "claims"):
        op.drop_table(table)
