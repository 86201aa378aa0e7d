-- The tables of peer a.
CREATE SCHEMA IF NOT EXISTS peer;
CREATE TABLE IF NOT EXISTS peer.token (
    sha256 bytea PRIMARY KEY, organisation_id bigint NOT NULL, revoked_at timestamptz);
CREATE TABLE IF NOT EXISTS peer.import_supplier (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, organisation_id bigint NOT NULL,
    code text NOT NULL UNIQUE, status text NOT NULL DEFAULT 'Ongoing');
CREATE TABLE IF NOT EXISTS peer.staged_account (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    import_supplier_id bigint NOT NULL REFERENCES peer.import_supplier,
    external_account_number text NOT NULL,
    state text NOT NULL DEFAULT 'PENDING',
    service_account_number text,
    payload jsonb NOT NULL,
    warnings jsonb,
    staged_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (import_supplier_id, external_account_number));
INSERT INTO peer.import_supplier (organisation_id, code) VALUES (1, 'BENCH');
INSERT INTO peer.staged_account (import_supplier_id, external_account_number, payload)
SELECT 1, external_account_number, payload FROM account_import_process;
-- The peer connects as the service does, with a role that owns nothing.
GRANT USAGE ON SCHEMA peer TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA peer TO PUBLIC;
