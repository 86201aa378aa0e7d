"""Comparisons, waves, and undo

Revision ID: 0005
Revises: 0004
"""

from alembic import op

revision = "0005"
down_revision = "0004"

_COMPARISONS = """
    CREATE TABLE comparison (
        id uuid CONSTRAINT pk_comparison PRIMARY KEY,
        organisation_id bigint NOT NULL
            CONSTRAINT fk_comparison_organisation_id REFERENCES organisation (id),
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_comparison_import_supplier_id REFERENCES import_supplier (id),
        batch_id uuid CONSTRAINT fk_comparison_batch_id REFERENCES batch (id),
        started_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        is_full boolean NOT NULL DEFAULT false,
        dispatched_at timestamptz,
        stage text NOT NULL,
        place jsonb,
        items bigint NOT NULL,
        done bigint NOT NULL DEFAULT '0',
        totals jsonb NOT NULL DEFAULT '{}'
    );
    CREATE UNIQUE INDEX uq_comparison_running ON comparison (import_supplier_id, batch_id)
        NULLS NOT DISTINCT WHERE finished_at IS NULL;
    CREATE INDEX ix_comparison_scope ON comparison (import_supplier_id, batch_id);

    CREATE TABLE compared_account (
        comparison_id uuid
            CONSTRAINT fk_compared_account_comparison_id REFERENCES comparison (id) ON DELETE CASCADE,
        number bigint,
        external_account_number text NOT NULL,
        found text NOT NULL,
        CONSTRAINT pk_compared_account PRIMARY KEY (comparison_id, number)
    );
    CREATE INDEX ix_compared_account_number ON compared_account (comparison_id, external_account_number);

    CREATE TABLE compared_line (
        comparison_id uuid
            CONSTRAINT fk_compared_line_comparison_id REFERENCES comparison (id) ON DELETE CASCADE,
        number bigint,
        batch_id uuid NOT NULL,
        line_number bigint NOT NULL,
        status text NOT NULL,
        is_acknowledged boolean NOT NULL,
        CONSTRAINT pk_compared_line PRIMARY KEY (comparison_id, number)
    );

    CREATE TABLE compared_piece (
        comparison_id uuid
            CONSTRAINT fk_compared_piece_comparison_id REFERENCES comparison (id) ON DELETE CASCADE,
        version bytea,
        totals jsonb NOT NULL,
        CONSTRAINT pk_compared_piece PRIMARY KEY (comparison_id, version)
    );

    CREATE TABLE old_figures (
        import_supplier_id bigint CONSTRAINT pk_old_figures PRIMARY KEY
            CONSTRAINT fk_old_figures_import_supplier_id REFERENCES import_supplier (id),
        upload_id uuid NOT NULL,
        file_name text,
        file_sha256 bytea NOT NULL,
        file_bytes bigint NOT NULL,
        accounts bigint NOT NULL,
        tolerance numeric NOT NULL,
        tolerance_days bigint NOT NULL,
        uploaded_at timestamptz NOT NULL DEFAULT now(),
        uploaded_by text NOT NULL
    );

    CREATE TABLE old_figure (
        import_supplier_id bigint,
        line_number bigint,
        external_account_number text NOT NULL,
        figures jsonb NOT NULL,
        CONSTRAINT pk_old_figure PRIMARY KEY (import_supplier_id, line_number)
    );
    CREATE INDEX ix_old_figure_account ON old_figure (import_supplier_id, external_account_number);

    CREATE TABLE figure_difference (
        comparison_id uuid
            CONSTRAINT fk_figure_difference_comparison_id REFERENCES comparison (id) ON DELETE CASCADE,
        number bigint,
        external_account_number text NOT NULL,
        figure text NOT NULL CONSTRAINT ck_figure_difference_figure
            CHECK (figure IN ('ledger_balances', 'last_billed_to_date', 'monthly_advance_amount',
                              'meter_points', 'open_transactions', 'last_reading_date', 'account')),
        ledger_code text,
        old text,
        created text,
        bucket text NOT NULL CONSTRAINT ck_figure_difference_bucket
            CHECK (bucket IN ('EQUAL', 'WITHIN_CENT', 'WITHIN_EURO', 'MORE')),
        is_tolerated boolean NOT NULL,
        CONSTRAINT pk_figure_difference PRIMARY KEY (comparison_id, number)
    );
    CREATE INDEX ix_figure_difference_bucket ON figure_difference (comparison_id, bucket, number);
    CREATE INDEX ix_figure_difference_account ON figure_difference (comparison_id, external_account_number);
"""

_CERTIFICATES = """
    CREATE TABLE certificate (
        id uuid CONSTRAINT pk_certificate PRIMARY KEY,
        organisation_id bigint NOT NULL
            CONSTRAINT fk_certificate_organisation_id REFERENCES organisation (id),
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_certificate_import_supplier_id REFERENCES import_supplier (id),
        batch_id uuid CONSTRAINT fk_certificate_batch_id REFERENCES batch (id),
        requested_by text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        dispatched_at timestamptz,
        place jsonb,
        accounts bigint NOT NULL DEFAULT '0',
        owned bigint NOT NULL DEFAULT '0',
        beginning text
    );
    CREATE INDEX ix_certificate_import_supplier_id ON certificate (import_supplier_id);
    CREATE UNIQUE INDEX uq_certificate_running ON certificate (import_supplier_id, batch_id)
        NULLS NOT DISTINCT WHERE finished_at IS NULL;

    CREATE TABLE certificate_leaf (
        certificate_id uuid,
        number bigint,
        external_account_number text NOT NULL,
        leaf bytea NOT NULL,
        subtree bytea,
        entry text,
        CONSTRAINT pk_certificate_leaf PRIMARY KEY (certificate_id, number)
    );
    CREATE INDEX ix_certificate_leaf_account ON certificate_leaf (certificate_id, external_account_number);
    CREATE INDEX ix_certificate_leaf_subtree ON certificate_leaf (certificate_id, number)
        WHERE subtree IS NOT NULL;
"""

_WAVES = """
    CREATE TABLE wave_plan (
        id uuid CONSTRAINT pk_wave_plan PRIMARY KEY,
        organisation_id bigint NOT NULL CONSTRAINT fk_wave_plan_organisation_id REFERENCES organisation (id),
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_wave_plan_import_supplier_id REFERENCES import_supplier (id),
        name text,
        operations_team_id bigint NOT NULL
            CONSTRAINT fk_wave_plan_operations_team_id REFERENCES operations_team (id),
        seed bigint NOT NULL,
        continue_if_clean boolean NOT NULL,
        unplanned bigint NOT NULL DEFAULT '0',
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        older_versions bigint NOT NULL DEFAULT '0'
    );
    CREATE INDEX ix_wave_plan_organisation_id ON wave_plan (organisation_id);
    CREATE UNIQUE INDEX uq_wave_plan_open ON wave_plan (import_supplier_id) WHERE finished_at IS NULL;

    CREATE TABLE wave (
        plan_id uuid CONSTRAINT fk_wave_plan_id REFERENCES wave_plan (id),
        number bigint,
        name text,
        batch_id uuid NOT NULL
            CONSTRAINT uq_wave_batch_id UNIQUE CONSTRAINT fk_wave_batch_id REFERENCES batch (id),
        state text NOT NULL DEFAULT 'PLANNED' CONSTRAINT ck_wave_state
            CHECK (state IN ('PLANNED', 'WAITING', 'RUNNING', 'PAUSED', 'RECONCILING', 'CLEAN', 'DIFFERS',
                             'APPROVED', 'STOPPED')),
        reason text,
        time_window jsonb,
        strata jsonb,
        began_at timestamptz,
        began_by text,
        forecast jsonb,
        ended_at timestamptz,
        comparison_id uuid,
        differing bigint,
        open bigint,
        reconciled_at timestamptz,
        decided_by text,
        decided_at timestamptz,
        decision_reason text,
        continue_if_clean boolean,
        CONSTRAINT pk_wave PRIMARY KEY (plan_id, number)
    );
"""

_UNDO = """
    CREATE TABLE undo (
        id uuid CONSTRAINT pk_undo PRIMARY KEY,
        organisation_id bigint NOT NULL CONSTRAINT fk_undo_organisation_id REFERENCES organisation (id),
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_undo_import_supplier_id REFERENCES import_supplier (id),
        batch_id uuid CONSTRAINT fk_undo_batch_id REFERENCES batch (id),
        reason text NOT NULL,
        overrides text[] NOT NULL DEFAULT '{}',
        state text NOT NULL DEFAULT 'RUNNING'
            CONSTRAINT ck_undo_state CHECK (state IN ('RUNNING', 'CANCELLED', 'COMPLETED')),
        accounts bigint NOT NULL DEFAULT '0',
        started_by text,
        api_key_id bigint CONSTRAINT fk_undo_api_key_id REFERENCES api_key (id),
        request_id text,
        address text,
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        dispatched_at timestamptz
    );
    CREATE INDEX ix_undo_batch_id ON undo (batch_id);
    CREATE INDEX ix_undo_import_supplier_id ON undo (import_supplier_id);
    CREATE INDEX ix_undo_open ON undo (created_at) WHERE finished_at IS NULL;

    CREATE TABLE undo_line (
        undo_id uuid,
        position bigint,
        account_import_process_id bigint NOT NULL,
        service_account_number text NOT NULL,
        outcome text NOT NULL DEFAULT 'PENDING'
            CONSTRAINT ck_undo_line_outcome CHECK (outcome IN ('PENDING', 'REVERTED', 'KEPT')),
        reasons text[],
        tries smallint NOT NULL DEFAULT '0',
        tried_at timestamptz,
        finished_at timestamptz,
        CONSTRAINT pk_undo_line PRIMARY KEY (undo_id, position)
    );
    CREATE INDEX ix_undo_line_pending ON undo_line (undo_id, position) WHERE outcome = 'PENDING';

    CREATE TABLE go_live (
        id uuid CONSTRAINT pk_go_live PRIMARY KEY,
        organisation_id bigint NOT NULL CONSTRAINT fk_go_live_organisation_id REFERENCES organisation (id),
        import_supplier_id bigint NOT NULL
            CONSTRAINT fk_go_live_import_supplier_id REFERENCES import_supplier (id),
        batch_id uuid CONSTRAINT fk_go_live_batch_id REFERENCES batch (id),
        external_account_numbers text[],
        live_at timestamptz NOT NULL,
        decided_by text,
        state text NOT NULL DEFAULT 'PENDING'
            CONSTRAINT ck_go_live_state CHECK (state IN ('PENDING', 'CANCELLED', 'COMPLETED')),
        place text NOT NULL DEFAULT '',
        accounts bigint NOT NULL DEFAULT '0',
        emails bigint NOT NULL DEFAULT '0',
        created_at timestamptz NOT NULL DEFAULT now(),
        finished_at timestamptz,
        dispatched_at timestamptz
    );
    CREATE INDEX ix_go_live_batch_id ON go_live (batch_id);
    CREATE INDEX ix_go_live_import_supplier_id ON go_live (import_supplier_id);
    CREATE INDEX ix_go_live_open ON go_live (live_at) WHERE finished_at IS NULL;

    CREATE TABLE retired_account_number (
        service_account_number text CONSTRAINT pk_retired_account_number PRIMARY KEY,
        retired_at timestamptz NOT NULL DEFAULT now()
    );
"""

# Once for each statement, whatever the number of accounts that it creates. Creation draws another number when
# the unique constraint of the table refuses one, so the trigger raises the same error.
_KEEP_RETIRED = """
    CREATE FUNCTION refuse_retired_account_numbers() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM created JOIN retired_account_number USING (service_account_number)) THEN
            RAISE EXCEPTION 'The number of a reverted account is never given out again.'
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'uq_account_service_account_number',
                      TABLE = 'account';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER refuse_retired_account_numbers AFTER INSERT ON account
        REFERENCING NEW TABLE AS created
        FOR EACH STATEMENT EXECUTE FUNCTION refuse_retired_account_numbers()
"""


def upgrade() -> None:
    op.execute(_COMPARISONS)
    op.execute(_CERTIFICATES)
    op.execute(_WAVES)
    op.execute(_UNDO)
    op.execute(_KEEP_RETIRED)


def downgrade() -> None:
    op.execute("DROP FUNCTION refuse_retired_account_numbers CASCADE")
    op.execute(
        "DROP TABLE retired_account_number, go_live, undo_line, undo, wave, wave_plan, compared_line, "
        "certificate_leaf, certificate, compared_piece, compared_account, figure_difference, old_figure, "
        "old_figures, comparison"
    )
