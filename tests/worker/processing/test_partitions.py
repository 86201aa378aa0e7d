"""A table is divided as docs/operators/scaling.md says, by its owner."""

import re
from pathlib import Path

import psycopg

from migration_service.config import Settings
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

_PAGE = Path(__file__).parents[3] / "docs/operators/scaling.md"
#: Statements that are committed by themselves.
_ALONE = 2


def test_accounts_are_created_in_a_table_that_was_divided(
    migrated: Settings, supplier: SupplierClient, batches: BatchClient
) -> None:
    assert batches.run(supplier.accounts(1))["counts"]["IMPORTED"] == 1
    (block,) = (
        it for it in re.findall(r"```sql\n(.*?)```", _PAGE.read_text(), re.DOTALL) if "PARTITION" in it
    )
    statements = re.sub(r"--.*", "", block).strip().removesuffix(";").split(";")
    with psycopg.connect(migrated.owner_database_url) as owner:
        for number, statement in enumerate(statements, start=1):
            owner.execute(statement.encode())
            if number <= _ALONE:
                owner.commit()
    done = batches.run(supplier.accounts(3)[1:], name="afterwards")
    assert done["counts"]["IMPORTED"] == 2, done
    with psycopg.connect(migrated.owner_database_url) as owner:
        (rows, ids) = owner.execute("SELECT count(*), count(DISTINCT id) FROM line_item").fetchone() or (0, 0)
        assert rows == ids > 0
