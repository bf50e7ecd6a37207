"""What later runs need to know, with what it said before and who changed it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The index follows the table by itself, so that no statement can forget it.
SQLITE_INDEX = (
    "CREATE VIRTUAL TABLE memory_words USING fts5("
    "words, content='memory', content_rowid='id', tokenize='unicode61 remove_diacritics 0')",
    "CREATE TRIGGER memory_words_added AFTER INSERT ON memory BEGIN "
    "INSERT INTO memory_words (rowid, words) VALUES (new.id, new.words); END",
    "CREATE TRIGGER memory_words_deleted AFTER DELETE ON memory BEGIN "
    "INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', old.id, old.words); END",
    "CREATE TRIGGER memory_words_changed AFTER UPDATE OF words ON memory BEGIN "
    "INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', old.id, old.words); "
    "INSERT INTO memory_words (rowid, words) VALUES (new.id, new.words); END",
)
POSTGRES_INDEX = "CREATE INDEX memory_words ON memory USING gin (array_to_tsvector(string_to_array(words, ' ')))"


def upgrade() -> None:
    op.create_table(
        "memory",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("scope", sa.String(length=200), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=True),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("said_by", sa.String(length=10), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=True),
        sa.Column("action_id", sa.String(length=100), nullable=True),
        sa.Column("trust", sa.String(length=10), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used", sa.DateTime(timezone=True), nullable=True),
        sa.Column("review_after", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_as", sa.String(length=10), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        # An id that was deleted is not given again: who still names it must not reach another entry.
        sqlite_autoincrement=True,
    )
    op.create_index("memory_by_scope", "memory", ["namespace", "scope"], unique=False)
    op.create_table(
        "memory_versions",
        sa.Column("entry_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("entry_id", "version"),
        sa.ForeignKeyConstraint(["entry_id"], ["memory.id"], name="versions_of_an_entry", ondelete="CASCADE"),
    )
    op.create_table(
        "memory_commits",
        sa.Column("idempotency_key", sa.String(length=100), nullable=False),
        sa.Column("namespace", sa.String(length=200), nullable=False),
        sa.Column("run_id", sa.String(length=1000), nullable=True),
        sa.Column("operation", sa.String(length=20), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("trust", sa.String(length=10), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("idempotency_key"),
    )
    op.create_index("memory_commits_by_run", "memory_commits", ["namespace", "run_id"], unique=False)
    _index()


def _index() -> None:
    """Full-text search; a SQLite without FTS5 does without, and entries are read instead."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.execute(POSTGRES_INDEX)
    elif connection.execute(sa.text("SELECT sqlite_compileoption_used('ENABLE_FTS5')")).scalar():
        for statement in SQLITE_INDEX:
            op.execute(sa.text(statement))


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(sa.text("DROP TABLE IF EXISTS memory_words"))
    op.drop_table("memory_commits")
    op.drop_table("memory_versions")
    op.drop_table("memory")
