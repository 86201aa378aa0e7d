"""The database: the base of the models, the engine, statements of the hot path, and revisions.

The hot path, which runs in every request or for every account, sends SQL text through `SqlConnection` and
`OpenTransaction`. Everything else uses a `Session`.

The caller at the edge (a view, a task, a command) opens the transaction. A service function takes the handle
as its first argument and never commits.
"""
