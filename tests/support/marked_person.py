"""An account whose every text has a mark, and the search for the mark in every table."""

from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from support.imported_account import LEDGER


def marked_parts(mark: str, ean: str = "871685900012345670") -> dict[str, Any]:
    """The parts of a payload, with the mark wherever a text can be."""
    return {
        "billing_address1": f"{mark}laan 1",
        "customers": [
            {
                "given_name": mark,
                "family_name": mark,
                "email": f"{mark}@klant.example",
                "user_details": [{"namespace": "nick", "value": mark}],
            }
        ],
        "supply_addresses": [
            {
                "supply_address1": f"{mark}laan 1",
                "meter_points": [
                    {
                        "ean": ean,
                        "supply_type": "ELECTRICITY",
                        "location_description": mark,
                        "meters": [
                            {
                                "meter_id": mark,
                                "registers": [{"register_id": "1", "time_of_use": mark.upper()}],
                            }
                        ],
                        "agreements": [
                            {
                                "supply_type": "ELECTRICITY",
                                "effective_from": "2024-01-01",
                                "tariff_code": "T1",
                                "params": {"historical_contract_number": mark},
                            }
                        ],
                    }
                ],
            }
        ],
        "ledgers": [{**LEDGER, "identifiers": [ean]}],
    }


def find_mark(sessions: sessionmaker[Session], mark: str) -> list[str]:
    """The tables that have the mark anywhere, in whatever column."""
    with sessions() as session:
        tables = session.scalars(
            # Not the parts of a divided table: the service may read them by the table, not by their names.
            text(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace "
                "AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname"
            )
        ).all()
        # One statement is a tenth of the work of one for each table. bytea is shown as hexadecimal digits.
        searched = " UNION ALL ".join(
            f"""
                SELECT '{table}' WHERE EXISTS (SELECT FROM "{table}" AS row
                WHERE CAST(row AS text) ILIKE :mark OR CAST(row AS text) ILIKE :hexadecimal)
            """  # noqa: S608 - the names of our own tables
            for table in tables
        )
        marks = {"mark": f"%{mark}%", "hexadecimal": f"%{mark.encode().hex()}%"}
        found = sorted(session.scalars(text(searched), marks))
    assert len(tables) > 30
    return found
