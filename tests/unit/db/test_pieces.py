"""Pieces bounded by bytes: of rows, of answers, and of what is decoded at once."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.pieces import LONGEST_PIECE, PIECE_BYTES, Scales, first_rows, in_pieces, weight_of
from support.servers import EmbeddedServers


@given(
    lengths=st.lists(
        st.sampled_from([0, 1, 900, PIECE_BYTES - 1, PIECE_BYTES, 3 * LONGEST_PIECE]), max_size=40
    ),
    at_once=st.integers(1, 400),
)
def test_every_row_is_written_once_and_pieces_are_short(lengths: list[int], at_once: int) -> None:
    held: list[int] = []

    def read(after: int) -> list[int]:
        held.append(after)
        return [*range(after, min(after + at_once, len(lengths)))]

    pieces = list(in_pieces(read, lambda row: b"%d" % (row % 10) * lengths[row], lambda row: row + 1, 0))
    assert b"".join(pieces) == b"".join(b"%d" % (row % 10) * it for row, it in enumerate(lengths))
    assert b"" not in pieces
    for piece in pieces:
        # What is longer is the end of a row.
        assert len(piece) < LONGEST_PIECE or len(piece) - LONGEST_PIECE < max(lengths)
    assert all(len(it) >= PIECE_BYTES for it in pieces[:-1])


def test_rows_are_read_by_what_they_weigh_and_at_least_one(embedded_servers: EmbeddedServers) -> None:
    """Whether a value is stored as it is, compressed in its row or apart, or not compressed."""
    noise = random.Random(4).randbytes(20_000).hex()
    engine = make_engine(embedded_servers.owner_url, pool_size=1, max_overflow=0, application_name="tests")
    with make_sessionmaker(engine).begin() as session:
        session.execute(text("CREATE TABLE weighed (id int, value jsonb)"))
        values = ['"a"', f'"{noise}"', f"[{'[],' * 500_000}0]", *['"b"'] * 5]
        for number, value in enumerate(values):
            session.execute(
                text("INSERT INTO weighed VALUES (:id, CAST(:value AS jsonb))"),
                {"id": number, "value": value},
            )

        def chosen(most: int, *, after: int = -1, limit: int = 100) -> list[int]:
            weighed = f"SELECT id, {weight_of('value')} AS weight"
            rows = f"{weighed} FROM weighed WHERE id > {after} ORDER BY id LIMIT {limit}"
            found = session.execute(text(first_rows(rows, "id", most))).all()
            assert all(row.in_all == min(limit, len(values) - 1 - after) for row in found)
            return [row.id for row in found]

        assert chosen(100) == [0, 1]
        assert chosen(1) == chosen(100, limit=1) == [0]
        assert chosen(1, after=0) == [1]
        assert chosen(39_000, after=0) == [1]
        assert chosen(1_000_000, after=0)[:2] == [1, 2]
        # A sixtieth is stored of what is 1.5 MB, and it counts for a part of that.
        assert chosen(50_000, after=1) == [2]
        assert chosen(1_000, after=2) == [3, 4, 5, 6, 7]
        assert chosen(1_000, after=2, limit=2) == [3, 4]
        assert chosen(10, after=7) == []
        session.rollback()
    engine.dispose()


@pytest.mark.parametrize("weights", [[400_000] * 30, [5_000_000] * 4, [70_000, 900_000, 3_000_000] * 6])
def test_what_is_decoded_at_once_is_bounded(weights: list[int]) -> None:
    scales, held, most, lock = Scales(1_000_000), 0, 0, threading.Lock()

    def decode(weight: int) -> None:
        nonlocal held, most
        with scales.holding(weight):
            with lock:
                held += weight
                most = max(most, held)
            threading.Event().wait(0.001)
            with lock:
                held -= weight

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(decode, weights))
    assert held == 0
    assert most <= max(1_000_000, *weights)
    with scales.holding(5_000_000), scales.holding(60_000):
        pass  # what is light does not wait
