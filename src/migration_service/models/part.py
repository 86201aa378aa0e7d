"""The mapping of payloads to rows. Each model below the account declares its part of the payload.

A column holds the value of the same name in its part, so the tables and section 2 of the specification use
the same names. `value_at` and `document_location` declare values that are deeper or derived from others.
`services.processing.creation` generates its SQL from these declarations only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Column, ForeignKey, Identity, Table
from sqlalchemy.orm import Mapped, MappedColumn, mapped_column

from migration_service.db.base import Base


@dataclass(frozen=True, slots=True)
class Source:
    """The place of a model's part within its parent's part of the payload."""

    parent: type[Base]
    key: str
    #: One object instead of a list of objects.
    single: bool = False
    #: The default if the key is absent or has an empty list.
    default: list[dict[str, Any]] | None = None
    #: Values of columns in every row of this source.
    constants: tuple[tuple[str, str], ...] = ()


class Part(Base):
    """A model for a part of the payload, with a row for each part, in the order of the payload.

    `*_pk` is a database key. `*_id` is always an identifier chosen by the supplier.
    """

    __abstract__ = True

    id: Mapped[int] = mapped_column(Identity(), primary_key=True, sort_order=-2)
    #: Zero-based index in the payload's array.
    position: Mapped[int] = mapped_column(sort_order=-1)

    #: The parts that become rows when an account is created. A model may have several sources.
    sources: tuple[Source, ...]


def parent_key(parent: type[Base]) -> MappedColumn[int]:
    """Return the foreign key of a part to its parent's row."""
    return mapped_column(ForeignKey(f"{parent.__tablename__}.id"), info={"parent": True})


def value_at(*path: str) -> MappedColumn[Any]:
    """Return a column whose value is at `path` in the part instead of under the column's name."""
    return mapped_column(info={"path": path})


def number_text() -> MappedColumn[Any]:
    """Return a column for a number that is a string in the payload ("string number" in section 2.3)."""
    return mapped_column(info={"as_text": True})


def document_location(*path: str) -> MappedColumn[Any]:
    """Return a column with the resolved location of the document path at `path` (section 2.1)."""
    return mapped_column(info={"document": path})


def table_of(model: type[Base]) -> Table:
    """Return the table of a model."""
    return cast(Table, model.__table__)


def parts_of(parent: type[Base]) -> Iterator[type[Part]]:
    """Yield the models whose rows are parts of `parent`'s part of the payload."""
    return (model for model in Part.__subclasses__() if model.sources[0].parent is parent)


def parent_column(model: type[Part]) -> Column[Any]:
    """Return the column with the key of a part's parent."""
    return next(column for column in table_of(model).columns if column.info.get("parent"))


def payload_columns(model: type[Base]) -> Iterator[Column[Any]]:
    """Yield the columns with values from the payload, without keys and values set by the database."""
    for column in table_of(model).columns:
        ours = column.name in ("id", "position") or column.info.keys() & {
            "parent",
            "root",
            "constant",
            "later",
            "trace",
        }
        if not ours and column.server_default is None:
            yield column


def path_of(column: Column[Any]) -> tuple[str, ...]:
    """Return the path of a column's value in its part."""
    path: tuple[str, ...] = column.info.get("path", (column.name,))
    return path
