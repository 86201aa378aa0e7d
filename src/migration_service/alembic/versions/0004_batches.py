"""Batches with their lines and chunks, and acknowledgements

Revision ID: 0004
Revises: 0003
"""

from alembic import op

revision = "0004"
down_revision = "0003"

_TABLES = """
    CREATE TABLE batch (
        id uuid CONSTRAINT pk_batch PRIMARY KEY,
        organisation_id bigint NOT NULL CONSTRAINT fk_batch_organisation_id REFERENCES organisation (id),
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_batch_import_supplier_id REFERENCES import_supplier (id),
        mode text NOT NULL
            CONSTRAINT ck_batch_mode CHECK (mode IN ('validate', 'stage', 'import', 'dry-run')),
        source text NOT NULL CONSTRAINT ck_batch_source CHECK (source IN ('upload', 'pending')),
        operations_team_id bigint CONSTRAINT fk_batch_operations_team_id REFERENCES operations_team (id),
        api_key_id bigint CONSTRAINT fk_batch_api_key_id REFERENCES api_key (id),
        state text NOT NULL DEFAULT 'RUNNING' CONSTRAINT ck_batch_state
            CHECK (state IN ('RUNNING', 'WAITING', 'PAUSED', 'STOPPED', 'CANCELLED', 'COMPLETED')),
        reason text,
        lines bigint NOT NULL DEFAULT '0',
        created_at timestamptz NOT NULL DEFAULT now(),
        started_at timestamptz,
        finished_at timestamptz,
        idempotency_key text,
        request_sha256 bytea,
        lines_removed_at timestamptz,
        removed_refused bigint,
        removed_waiting bigint,
        name text,
        file_name text,
        profile text CONSTRAINT ck_batch_profile CHECK (profile IN ('lenient', 'strict')),
        validated_under text,
        request_id text,
        address text,
        stored_bytes bigint NOT NULL DEFAULT 0,
        brake jsonb,
        brake_since timestamptz,
        kind text NOT NULL DEFAULT 'accounts' CONSTRAINT ck_batch_kind
            CHECK (kind IN ('accounts', 'notes', 'transactions', 'statements', 'payment-instructions')),
        options jsonb NOT NULL DEFAULT '{}',
        runs_until timestamptz,
        lines_per_minute bigint,
        file_sha256 bytea,
        file_bytes bigint,
        file_totals jsonb,
        control_totals jsonb,
        extracted_at timestamptz,
        older_versions bigint,
        runs_since timestamptz,
        CONSTRAINT ck_batch_team_to_create
            CHECK (operations_team_id IS NOT NULL OR mode IN ('validate', 'stage') OR kind <> 'accounts'),
        CONSTRAINT uq_batch_idempotency_key UNIQUE (organisation_id, idempotency_key)
    );
    CREATE INDEX ix_batch_import_supplier_id ON batch (import_supplier_id);
    CREATE INDEX ix_batch_open ON batch (created_at) WHERE finished_at IS NULL;

    CREATE TABLE batch_line (
        batch_id uuid,
        line_number bigint,
        payload bytea,
        external_account_number text,
        meant_number text,
        account_import_process_id bigint,
        status text NOT NULL DEFAULT 'PENDING' CONSTRAINT ck_batch_line_status
            CHECK (status IN ('PENDING', 'VALID', 'STAGED', 'IMPORTED', 'WOULD_IMPORT', 'REPLACED',
                              'WOULD_REPLACE', 'ALREADY_IMPORTED', 'SKIPPED', 'ADDED', 'WOULD_ADD',
                              'ALREADY_ADDED', 'DEFERRED', 'FAILED')),
        service_account_number text,
        errors jsonb,
        warnings jsonb,
        chunk_line bigint,
        staging_result text,
        understood jsonb,
        CONSTRAINT pk_batch_line PRIMARY KEY (batch_id, line_number)
    ) WITH (toast_tuple_target = 128, fillfactor = 50);
    CREATE INDEX ix_batch_line_chunk ON batch_line (batch_id, chunk_line, line_number)
        WHERE chunk_line IS NOT NULL;
    CREATE INDEX ix_batch_line_number ON batch_line (batch_id, external_account_number);
    CREATE INDEX ix_batch_line_meant_number ON batch_line (batch_id, meant_number)
        WHERE meant_number IS NOT NULL;

    CREATE TABLE batch_chunk (
        batch_id uuid CONSTRAINT fk_batch_chunk_batch_id REFERENCES batch (id) ON DELETE CASCADE,
        first_line bigint,
        last_line bigint NOT NULL,
        state text NOT NULL DEFAULT 'PENDING'
            CONSTRAINT ck_batch_chunk_state CHECK (state IN ('PENDING', 'DISPATCHED', 'DONE')),
        dispatched_at timestamptz,
        attempts uuid[],
        tries bigint NOT NULL DEFAULT '0',
        counts jsonb NOT NULL DEFAULT '{}',
        error_counts jsonb NOT NULL DEFAULT '{}',
        warning_counts jsonb NOT NULL DEFAULT '{}',
        worked bigint NOT NULL DEFAULT '0',
        finished_at timestamptz,
        worked_at timestamptz,
        throttled_at timestamptz,
        refused bigint NOT NULL DEFAULT '0',
        done bigint NOT NULL DEFAULT '0',
        failures jsonb NOT NULL DEFAULT '{}',
        by_account boolean NOT NULL DEFAULT false,
        not_before timestamptz,
        deferred_since timestamptz,
        staging_counts jsonb NOT NULL DEFAULT '{}',
        processor_wait double precision,
        warned jsonb,
        CONSTRAINT pk_batch_chunk PRIMARY KEY (batch_id, first_line)
    );
    CREATE INDEX ix_batch_chunk_open ON batch_chunk (batch_id, first_line) WHERE state <> 'DONE';
    CREATE INDEX ix_batch_chunk_working ON batch_chunk (batch_id) WHERE attempts IS NOT NULL;
    CREATE INDEX ix_batch_chunk_worked ON batch_chunk (batch_id, worked_at);

    CREATE TABLE acknowledgement (
        id bigint GENERATED BY DEFAULT AS IDENTITY CONSTRAINT pk_acknowledgement PRIMARY KEY,
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_acknowledgement_import_supplier_id REFERENCES import_supplier (id),
        external_account_number text,
        batch_id uuid,
        line_number bigint,
        reason text NOT NULL,
        acknowledged_by text NOT NULL,
        acknowledged_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_acknowledgement_account_or_line CHECK (
            external_account_number IS NOT NULL OR (batch_id IS NOT NULL AND line_number IS NOT NULL)
        )
    );
    CREATE INDEX ix_acknowledgement_item
        ON acknowledgement (import_supplier_id, external_account_number, batch_id, line_number);

    CREATE TABLE accepted_warning (
        id bigint GENERATED BY DEFAULT AS IDENTITY CONSTRAINT pk_accepted_warning PRIMARY KEY,
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_accepted_warning_import_supplier_id REFERENCES import_supplier (id),
        readiness_check text NOT NULL CONSTRAINT ck_accepted_warning_check CHECK (
            readiness_check IN ('team_exists', 'vendors_answer', 'mail_held', 'window_long_enough',
                                'rehearsal_current', 'control_totals_equal', 'nothing_open',
                                'disk_has_room', 'backup_recent', 'four_eyes')),
        found text NOT NULL,
        reason text NOT NULL,
        accepted_by text NOT NULL,
        accepted_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ix_accepted_warning_import_supplier_id ON accepted_warning (import_supplier_id);
"""


def upgrade() -> None:
    op.execute(_TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE accepted_warning, acknowledgement, batch_chunk, batch_line, batch")
