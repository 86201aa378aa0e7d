"""The base of the models, their identifiers, and shared SQL expressions."""

import os
import time
from collections.abc import Collection, Iterable
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ColumnElement, DateTime, MetaData, Numeric, Text, any_, literal
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base of every model. Its metadata has the naming convention for constraints."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        int: BigInteger,
        datetime: DateTime(timezone=True),
        # No precision, because plain NUMERIC keeps every digit that was sent, as in 12.30.
        Decimal: Numeric,
        list[str]: ARRAY(Text),
        list[Decimal]: ARRAY(Numeric),
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
    }


def one_of(column: ColumnElement[Any], values: Collection[Any]) -> ColumnElement[bool]:
    """Return the condition that `column` is one of `values`.

    It needs a single parameter for any number of values. IN has a limit of 65,535.
    """
    return column == any_(literal(list(values), ARRAY(column.type)))


def literals(members: Iterable[StrEnum]) -> str:
    """Return members of an enumeration as SQL literals separated by commas."""
    return ", ".join(f"'{member.value}'" for member in members)


def new_id() -> UUID:
    """Return a UUID of version 7. It is ordered by time, which keeps the index of a million rows compact.

    Twelve bits hold a fraction of the millisecond (RFC 9562, section 6.2), so consecutive ids of a process
    are in order.
    """
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = (nanoseconds << 12) // 1_000_000
    random = int.from_bytes(os.urandom(8)) >> 2
    return UUID(int=milliseconds << 80 | 7 << 76 | fraction << 64 | 2 << 62 | random)
