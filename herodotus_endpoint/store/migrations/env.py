"""Alembic's entry point: it runs the revisions on the connection that `store.database` passes, without an ini file."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"], render_as_batch=True, transaction_per_migration=False
)
context.run_migrations()
