"""Removing values of rows from database errors, because their texts end up in logs.

PostgreSQL repeats values in an error's DETAIL and CONTEXT, and for invalid data in its message.
"""

import psycopg
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import StatementError

#: Classes of SQLSTATE whose messages contain values: invalid data, constraints, limits, internal errors.
_WITH_VALUES = ("22", "23", "42", "54", "XX", "P0")


def hide_values(error: BaseException) -> None:
    """Remove everything from the text of a psycopg error that could be a value of a row."""
    if not isinstance(error, psycopg.Error) or not error.sqlstate:
        return
    message = (error.diag.message_primary or "").strip()
    if error.sqlstate.startswith(_WITH_VALUES):
        named = (error.diag.constraint_name, error.diag.table_name, error.diag.column_name)
        place = ", ".join(filter(None, named))
        message = f"{type(error).__name__}{f' at {place}' if place else ''}"
    error.args = (f"{message} (SQLSTATE {error.sqlstate})",)


def hide_values_of(engine: Engine) -> None:
    """Do this for every error raised by the engine's connections."""

    @event.listens_for(engine, "handle_error")
    def hide(context: ExceptionContext) -> None:
        original = context.original_exception
        hide_values(original)
        wrapped = context.sqlalchemy_exception
        if isinstance(wrapped, StatementError) and isinstance(original, psycopg.Error):
            kind = type(original)
            wrapped.args = (f"({kind.__module__}.{kind.__name__}) {original}",)
