"""What rows that are written at a high rate keep of who wrote them, instead of an audit entry each."""

from sqlalchemy.orm import Mapped, mapped_column


class Traced:
    """Columns of a row that a request adds: the key, the request and the address that it came from.

    All are None for a row that an operator added, or that came with the account's payload. There is no
    foreign key: keys are never removed, and a check for each row would cost more than the column.
    """

    api_key_id: Mapped[int | None] = mapped_column(info={"trace": True})
    request_id: Mapped[str | None] = mapped_column(info={"trace": True})
    address: Mapped[str | None] = mapped_column(info={"trace": True})
