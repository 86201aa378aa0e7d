"""The origin of rows that are written at a high rate, recorded in the row instead of an audit entry."""

from sqlalchemy.orm import Mapped, mapped_column


class Traced:
    """The origin of a row that a request added: the key, the request and the client's address.

    All are None for a row that was added by an operator or came with the payload. There is no foreign key,
    because keys are never removed, and a check for each row would cost more than the column.
    """

    api_key_id: Mapped[int | None] = mapped_column(info={"trace": True})
    request_id: Mapped[str | None] = mapped_column(info={"trace": True})
    address: Mapped[str | None] = mapped_column(info={"trace": True})
