"""Alembic's way in: migrations run on the connection that `store.database` hands over."""

from alembic import context

from store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,
    render_as_batch=True,
)
context.run_migrations()
