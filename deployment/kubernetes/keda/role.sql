-- For the role with which KEDA counts: it sees states, and nothing of a payload. Run it as the owner of the tables.
GRANT SELECT (state) ON account_import_process TO migration_scaler;
GRANT SELECT (id, kind, state, finished_at) ON batch TO migration_scaler;
GRANT SELECT (batch_id, state) ON batch_chunk TO migration_scaler;
