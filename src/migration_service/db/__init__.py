"""The database: models' base (`base`), engine (`engine`), statements (`statements`), Alembic (`revisions`).

The hot path, which is what runs in every request and for every account, sends SQL text through `Statements`
and `Transaction`; everything else uses a `Session`.

The caller at the edge (a view, a task, a command) opens the transaction. A service function takes the handle
as its first argument and never commits.
"""
