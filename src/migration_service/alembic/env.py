"""Runs the revisions over the connection that `migration_service.db.revisions` hands over."""

from alembic import context

from migration_service import models
from migration_service.db.base import Base

__all__ = ["models"]
context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
