"""The first tables

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "operations_team",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations_team")),
        sa.UniqueConstraint("name", name=op.f("uq_operations_team_name")),
    )
    op.create_table(
        "organisation",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_organisation")),
        sa.UniqueConstraint("name", name=op.f("uq_organisation_name")),
    )
    op.create_table(
        "service_limit",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("concurrency_limit", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("concurrency_limit > 0", name=op.f("ck_service_limit_positive")),
        sa.CheckConstraint("id = 1", name=op.f("ck_service_limit_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_service_limit")),
    )
    op.create_table(
        "api_key",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("key_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_api_key_organisation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("prefix", name=op.f("uq_api_key_prefix")),
    )
    op.create_index(op.f("ix_api_key_organisation_id"), "api_key", ["organisation_id"], unique=False)
    op.create_table(
        "import_supplier",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("organisation_id", sa.BigInteger(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="Ongoing", nullable=False),
        sa.Column("document_root", sa.Text(), server_default="", nullable=False),
        sa.Column("profile", sa.Text(), server_default="lenient", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("profile IN ('lenient', 'strict')", name=op.f("ck_import_supplier_profile")),
        sa.CheckConstraint(
            "status IN ('Ongoing', 'Paused', 'Complete')", name=op.f("ck_import_supplier_status")
        ),
        sa.ForeignKeyConstraint(
            ["organisation_id"], ["organisation.id"], name=op.f("fk_import_supplier_organisation_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_import_supplier")),
        sa.UniqueConstraint("code", name=op.f("uq_import_supplier_code")),
    )
    op.create_index(
        op.f("ix_import_supplier_organisation_id"), "import_supplier", ["organisation_id"], unique=False
    )
    op.create_table(
        "account_import_process",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("external_account_number", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default="PENDING", nullable=False),
        sa.Column("payload", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("payload_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("rules_version", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("warnings", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("staged_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempt_id", sa.Uuid(), nullable=True),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("tries", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("service_account_number", sa.Text(), nullable=True),
        sa.Column("account_created_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state = 'IN_PROGRESS') = (attempt_id IS NOT NULL)",
            name=op.f("ck_account_import_process_attempt_in_progress"),
        ),
        sa.CheckConstraint(
            "state IN ('PENDING', 'IN_PROGRESS', 'IMPORTED', 'SKIPPED')",
            name=op.f("ck_account_import_process_state"),
        ),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"],
            ["import_supplier.id"],
            name=op.f("fk_account_import_process_import_supplier_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_import_process")),
        sa.UniqueConstraint(
            "import_supplier_id", "external_account_number", name="uq_account_import_process_pair"
        ),
        postgresql_with={"toast_tuple_target": "128"},
    )
    op.create_index(
        "ix_account_import_process_in_progress",
        "account_import_process",
        ["dispatched_at"],
        unique=False,
        postgresql_where=sa.text("state = 'IN_PROGRESS'"),
    )
    op.create_table(
        "account",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("service_account_number", sa.Text(), nullable=False),
        sa.Column("account_import_process_id", sa.BigInteger(), nullable=False),
        sa.Column("import_supplier_id", sa.BigInteger(), nullable=False),
        sa.Column("operations_team_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("external_account_number", sa.Text(), nullable=False),
        sa.Column("unknown_occupier", sa.Boolean(), nullable=False),
        sa.Column("billing_address1", sa.Text(), nullable=True),
        sa.Column("billing_address2", sa.Text(), nullable=True),
        sa.Column("billing_address3", sa.Text(), nullable=True),
        sa.Column("billing_address4", sa.Text(), nullable=True),
        sa.Column("billing_postcode", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_import_process_id"],
            ["account_import_process.id"],
            name=op.f("fk_account_account_import_process_id"),
        ),
        sa.ForeignKeyConstraint(
            ["import_supplier_id"], ["import_supplier.id"], name=op.f("fk_account_import_supplier_id")
        ),
        sa.ForeignKeyConstraint(
            ["operations_team_id"], ["operations_team.id"], name=op.f("fk_account_operations_team_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
        sa.UniqueConstraint("account_import_process_id", name=op.f("uq_account_account_import_process_id")),
        sa.UniqueConstraint("import_supplier_id", "external_account_number", name="uq_account_pair"),
        sa.UniqueConstraint("service_account_number", name=op.f("uq_account_service_account_number")),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("account_import_process_id", sa.BigInteger(), nullable=False),
        sa.Column("operations_team_id", sa.BigInteger(), nullable=False),
        sa.Column("api_key_id", sa.BigInteger(), nullable=True),
        sa.Column("dry_run", sa.Boolean(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("service_account_number", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_detail", sa.Text(), nullable=True),
        sa.Column("errors", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('SUCCEEDED', 'DRY_RUN_SUCCEEDED', 'FAILED', 'WITHDRAWN')",
            name=op.f("ck_attempt_outcome"),
        ),
        sa.CheckConstraint(
            "(outcome IS NULL) = (finished_at IS NULL)", name=op.f("ck_attempt_finished_with_outcome")
        ),
        sa.ForeignKeyConstraint(
            ["account_import_process_id"],
            ["account_import_process.id"],
            name=op.f("fk_attempt_account_import_process_id"),
        ),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_key.id"], name=op.f("fk_attempt_api_key_id")),
        sa.ForeignKeyConstraint(
            ["operations_team_id"], ["operations_team.id"], name=op.f("fk_attempt_operations_team_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
    )
    op.create_index(
        op.f("ix_attempt_account_import_process_id"), "attempt", ["account_import_process_id"], unique=False
    )
    op.create_table(
        "customer",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("given_name", sa.Text(), nullable=True),
        sa.Column("family_name", sa.Text(), nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("mobile", sa.Text(), nullable=True),
        sa.Column("landline", sa.Text(), nullable=True),
        sa.Column("date_of_birth", sa.Date(), nullable=True),
        sa.Column("opted_into_updates", sa.Boolean(), nullable=True),
        sa.Column("opted_into_offers", sa.Boolean(), nullable=True),
        sa.Column("opted_into_sms", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["account_pk"], ["account.id"], name=op.f("fk_customer_account_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_customer")),
    )
    op.create_index(op.f("ix_customer_account_pk"), "customer", ["account_pk"], unique=False)
    op.create_table(
        "ledger",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("ledger_code", sa.Text(), nullable=False),
        sa.Column("identifiers", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("last_settlement_balance", sa.Numeric(), nullable=True),
        sa.Column("last_settlement_closing_date", sa.Date(), nullable=True),
        sa.Column("last_settlement_issue_date", sa.Date(), nullable=True),
        sa.Column("ledger_balance", sa.Numeric(), nullable=False),
        sa.ForeignKeyConstraint(["account_pk"], ["account.id"], name=op.f("fk_ledger_account_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger")),
        sa.UniqueConstraint("account_pk", "ledger_code", name=op.f("uq_ledger_account_pk_ledger_code")),
    )
    op.create_index(op.f("ix_ledger_account_pk"), "ledger", ["account_pk"], unique=False)
    op.create_table(
        "statement",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("statement_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Text(), nullable=False),
        sa.Column("issued_date", sa.Date(), nullable=False),
        sa.Column("bill_period_from_date", sa.Date(), nullable=False),
        sa.Column("bill_period_to_date", sa.Date(), nullable=False),
        sa.Column("gross_amount", sa.Numeric(), nullable=False),
        sa.Column("statement_path", sa.Text(), nullable=True),
        sa.Column("statement_location", sa.Text(), nullable=True),
        sa.Column("statement_pdf_context", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["account_pk"], ["account.id"], name=op.f("fk_statement_account_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_statement")),
        sa.UniqueConstraint("account_pk", "statement_id", name=op.f("uq_statement_account_pk_statement_id")),
    )
    op.create_index(op.f("ix_statement_account_pk"), "statement", ["account_pk"], unique=False)
    op.create_table(
        "supply_address",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("supply_address1", sa.Text(), nullable=True),
        sa.Column("supply_address2", sa.Text(), nullable=True),
        sa.Column("supply_address3", sa.Text(), nullable=True),
        sa.Column("supply_address4", sa.Text(), nullable=True),
        sa.Column("supply_postcode", sa.Text(), nullable=True),
        sa.Column("customer_at_supply_address_from_date", sa.Date(), nullable=True),
        sa.ForeignKeyConstraint(["account_pk"], ["account.id"], name=op.f("fk_supply_address_account_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_supply_address")),
    )
    op.create_index(op.f("ix_supply_address_account_pk"), "supply_address", ["account_pk"], unique=False)
    op.create_table(
        "meter_point",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("supply_address_pk", sa.BigInteger(), nullable=False),
        sa.Column("ean", sa.Text(), nullable=False),
        sa.Column("supply_type", sa.Text(), nullable=False),
        sa.Column("last_billed_to_date", sa.Date(), nullable=True),
        sa.Column("supply_start_date", sa.Date(), nullable=True),
        sa.Column("smart_meter_administrative_status", sa.Text(), nullable=True),
        sa.Column("market_segment", sa.Text(), nullable=True),
        sa.Column("location_description", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["supply_address_pk"], ["supply_address.id"], name=op.f("fk_meter_point_supply_address_pk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meter_point")),
    )
    op.create_index(op.f("ix_meter_point_ean"), "meter_point", ["ean"], unique=False)
    op.create_index(
        op.f("ix_meter_point_supply_address_pk"), "meter_point", ["supply_address_pk"], unique=False
    )
    op.create_table(
        "transaction",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("ledger_pk", sa.BigInteger(), nullable=False),
        sa.Column("account_pk", sa.BigInteger(), nullable=False),
        sa.Column("period", sa.Text(), nullable=False),
        sa.Column("transaction_id", sa.Text(), nullable=False),
        sa.Column("transaction_date", sa.Date(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("payment_type", sa.Text(), nullable=True),
        sa.Column("display_note", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("associated_invoice_number", sa.Text(), nullable=True),
        sa.Column("supply_type", sa.Text(), nullable=True),
        sa.Column("product_code", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("period IN ('OPEN', 'HISTORICAL', 'ADDED')", name=op.f("ck_transaction_period")),
        sa.ForeignKeyConstraint(["account_pk"], ["account.id"], name=op.f("fk_transaction_account_pk")),
        sa.ForeignKeyConstraint(["ledger_pk"], ["ledger.id"], name=op.f("fk_transaction_ledger_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transaction")),
        sa.UniqueConstraint(
            "account_pk", "transaction_id", name=op.f("uq_transaction_account_pk_transaction_id")
        ),
    )
    op.create_index(op.f("ix_transaction_ledger_pk"), "transaction", ["ledger_pk"], unique=False)
    op.create_table(
        "user_detail",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("customer_pk", sa.BigInteger(), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["customer_pk"], ["customer.id"], name=op.f("fk_user_detail_customer_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_detail")),
    )
    op.create_index(op.f("ix_user_detail_customer_pk"), "user_detail", ["customer_pk"], unique=False)
    op.create_table(
        "agreement",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_point_pk", sa.BigInteger(), nullable=False),
        sa.Column("supply_type", sa.Text(), nullable=False),
        sa.Column("effective_from", sa.Date(), nullable=False),
        sa.Column("agreed_at", sa.Date(), nullable=True),
        sa.Column("tariff_code", sa.Text(), nullable=False),
        sa.Column("historical_contract_number", sa.Text(), nullable=True),
        sa.Column("historical_contract_pdf_path", sa.Text(), nullable=True),
        sa.Column("historical_contract_pdf_location", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["meter_point_pk"], ["meter_point.id"], name=op.f("fk_agreement_meter_point_pk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agreement")),
    )
    op.create_index(op.f("ix_agreement_meter_point_pk"), "agreement", ["meter_point_pk"], unique=False)
    op.create_table(
        "billing_configuration_period",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_point_pk", sa.BigInteger(), nullable=False),
        sa.Column("residency_status", sa.Text(), nullable=True),
        sa.Column("energy_tax_exception", sa.Text(), nullable=True),
        sa.Column("start_date", sa.Date(), nullable=False),
        sa.Column("end_date", sa.Date(), nullable=True),
        sa.ForeignKeyConstraint(
            ["meter_point_pk"],
            ["meter_point.id"],
            name=op.f("fk_billing_configuration_period_meter_point_pk"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_billing_configuration_period")),
    )
    op.create_index(
        op.f("ix_billing_configuration_period_meter_point_pk"),
        "billing_configuration_period",
        ["meter_point_pk"],
        unique=False,
    )
    op.create_table(
        "energy_meter_point_configuration_period",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_point_pk", sa.BigInteger(), nullable=False),
        sa.Column("allocation_method", sa.Text(), nullable=True),
        sa.Column("energy_delivery_status", sa.Text(), nullable=True),
        sa.Column("energy_flow_direction", sa.Text(), nullable=True),
        sa.Column("metering_method", sa.Text(), nullable=True),
        sa.Column("physical_status", sa.Text(), nullable=True),
        sa.Column("profile_category", sa.Text(), nullable=True),
        sa.Column("physical_capacity", sa.Numeric(), nullable=True),
        sa.Column("cap_tar_code", sa.Text(), nullable=True),
        sa.Column("start_date", sa.Date(), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter_point_pk"],
            ["meter_point.id"],
            name=op.f("fk_energy_meter_point_configuration_period_meter_point_pk"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_energy_meter_point_configuration_period")),
    )
    op.create_index(
        op.f("ix_energy_meter_point_configuration_period_meter_point_pk"),
        "energy_meter_point_configuration_period",
        ["meter_point_pk"],
        unique=False,
    )
    op.create_table(
        "energy_meter_point_grid_operator_effective_period",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_point_pk", sa.BigInteger(), nullable=False),
        sa.Column("grid_operator_code", sa.Text(), nullable=False),
        sa.Column("start_date", sa.Date(), nullable=False),
        sa.ForeignKeyConstraint(
            ["meter_point_pk"],
            ["meter_point.id"],
            name=op.f("fk_energy_meter_point_grid_operator_effective_period_meter_point_pk"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_energy_meter_point_grid_operator_effective_period")),
    )
    op.create_index(
        op.f("ix_energy_meter_point_grid_operator_effective_period_meter_point_pk"),
        "energy_meter_point_grid_operator_effective_period",
        ["meter_point_pk"],
        unique=False,
    )
    op.create_table(
        "estimated_annual_volume",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_point_pk", sa.BigInteger(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("energy_netted_peak", sa.Numeric(), nullable=True),
        sa.Column("energy_netted_off_peak", sa.Numeric(), nullable=True),
        sa.Column("start_at", sa.DateTime(), nullable=False),
        sa.Column("end_at", sa.DateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["meter_point_pk"], ["meter_point.id"], name=op.f("fk_estimated_annual_volume_meter_point_pk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_estimated_annual_volume")),
    )
    op.create_index(
        op.f("ix_estimated_annual_volume_meter_point_pk"),
        "estimated_annual_volume",
        ["meter_point_pk"],
        unique=False,
    )
    op.create_table(
        "line_item",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("transaction_pk", sa.BigInteger(), nullable=False),
        sa.Column("rate_band", sa.Text(), nullable=False),
        sa.Column("start_date", sa.Date(), nullable=True),
        sa.Column("end_date", sa.Date(), nullable=True),
        sa.Column("number_of_units", sa.Numeric(), nullable=True),
        sa.Column("price_per_unit", sa.Numeric(), nullable=True),
        sa.Column("net_amount", sa.Numeric(), nullable=False),
        sa.Column("units", sa.ARRAY(sa.Numeric()), nullable=True),
        sa.Column("ref", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["transaction_pk"], ["transaction.id"], name=op.f("fk_line_item_transaction_pk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_line_item")),
    )
    op.create_index(op.f("ix_line_item_transaction_pk"), "line_item", ["transaction_pk"], unique=False)
    op.create_table(
        "meter",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_point_pk", sa.BigInteger(), nullable=False),
        sa.Column("meter_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=True),
        sa.Column("smart_meter_technical_communication", sa.Text(), nullable=True),
        sa.Column("active_from", sa.Date(), nullable=True),
        sa.ForeignKeyConstraint(["meter_point_pk"], ["meter_point.id"], name=op.f("fk_meter_meter_point_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meter")),
    )
    op.create_index(op.f("ix_meter_meter_point_pk"), "meter", ["meter_point_pk"], unique=False)
    op.create_table(
        "tax_item",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("transaction_pk", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(), nullable=False),
        sa.Column("tax_type", sa.Text(), nullable=False),
        sa.Column("rate", sa.Numeric(), nullable=True),
        sa.Column("unit_type", sa.Text(), nullable=True),
        sa.Column("value_taxed", sa.Numeric(), nullable=True),
        sa.Column("vat_on", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["transaction_pk"], ["transaction.id"], name=op.f("fk_tax_item_transaction_pk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tax_item")),
    )
    op.create_index(op.f("ix_tax_item_transaction_pk"), "tax_item", ["transaction_pk"], unique=False)
    op.create_table(
        "monthly_advance_charge_template",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("agreement_pk", sa.BigInteger(), nullable=False),
        sa.Column("total_monthly_advance_amount", sa.Numeric(), nullable=False),
        sa.Column("forecast_annual_consumption", sa.Numeric(), nullable=True),
        sa.Column("forecast_consumption_units", sa.Text(), nullable=True),
        sa.Column("forecast_annual_generation", sa.Numeric(), nullable=True),
        sa.Column("forecast_generation_units", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["agreement_pk"], ["agreement.id"], name=op.f("fk_monthly_advance_charge_template_agreement_pk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_monthly_advance_charge_template")),
    )
    op.create_index(
        op.f("ix_monthly_advance_charge_template_agreement_pk"),
        "monthly_advance_charge_template",
        ["agreement_pk"],
        unique=False,
    )
    op.create_table(
        "register",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("meter_pk", sa.BigInteger(), nullable=False),
        sa.Column("register_id", sa.Text(), nullable=False),
        sa.Column("metering_direction", sa.Text(), nullable=True),
        sa.Column("multiplication_factor", sa.BigInteger(), nullable=True),
        sa.Column("number_of_digits", sa.BigInteger(), nullable=True),
        sa.Column("time_of_use", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["meter_pk"], ["meter.id"], name=op.f("fk_register_meter_pk")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_register")),
    )
    op.create_index(op.f("ix_register_meter_pk"), "register", ["meter_pk"], unique=False)
    op.create_table(
        "cost_detail",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("monthly_advance_charge_template_pk", sa.BigInteger(), nullable=False),
        sa.Column("band", sa.Text(), nullable=False),
        sa.Column("net_amount", sa.Numeric(), nullable=False),
        sa.Column("tax_amount", sa.Numeric(), nullable=True),
        sa.Column("tax_rate", sa.Numeric(), nullable=True),
        sa.ForeignKeyConstraint(
            ["monthly_advance_charge_template_pk"],
            ["monthly_advance_charge_template.id"],
            name=op.f("fk_cost_detail_monthly_advance_charge_template_pk"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cost_detail")),
    )
    op.create_index(
        op.f("ix_cost_detail_monthly_advance_charge_template_pk"),
        "cost_detail",
        ["monthly_advance_charge_template_pk"],
        unique=False,
    )
    op.execute("INSERT INTO service_limit (id, concurrency_limit) VALUES (1, 250)")


def downgrade() -> None:
    op.drop_index(op.f("ix_cost_detail_monthly_advance_charge_template_pk"), table_name="cost_detail")
    op.drop_table("cost_detail")
    op.drop_index(op.f("ix_register_meter_pk"), table_name="register")
    op.drop_table("register")
    op.drop_index(
        op.f("ix_monthly_advance_charge_template_agreement_pk"), table_name="monthly_advance_charge_template"
    )
    op.drop_table("monthly_advance_charge_template")
    op.drop_index(op.f("ix_tax_item_transaction_pk"), table_name="tax_item")
    op.drop_table("tax_item")
    op.drop_index(op.f("ix_meter_meter_point_pk"), table_name="meter")
    op.drop_table("meter")
    op.drop_index(op.f("ix_line_item_transaction_pk"), table_name="line_item")
    op.drop_table("line_item")
    op.drop_index(op.f("ix_estimated_annual_volume_meter_point_pk"), table_name="estimated_annual_volume")
    op.drop_table("estimated_annual_volume")
    op.drop_index(
        op.f("ix_energy_meter_point_grid_operator_effective_period_meter_point_pk"),
        table_name="energy_meter_point_grid_operator_effective_period",
    )
    op.drop_table("energy_meter_point_grid_operator_effective_period")
    op.drop_index(
        op.f("ix_energy_meter_point_configuration_period_meter_point_pk"),
        table_name="energy_meter_point_configuration_period",
    )
    op.drop_table("energy_meter_point_configuration_period")
    op.drop_index(
        op.f("ix_billing_configuration_period_meter_point_pk"), table_name="billing_configuration_period"
    )
    op.drop_table("billing_configuration_period")
    op.drop_index(op.f("ix_agreement_meter_point_pk"), table_name="agreement")
    op.drop_table("agreement")
    op.drop_index(op.f("ix_user_detail_customer_pk"), table_name="user_detail")
    op.drop_table("user_detail")
    op.drop_index(op.f("ix_transaction_ledger_pk"), table_name="transaction")
    op.drop_table("transaction")
    op.drop_index(op.f("ix_meter_point_supply_address_pk"), table_name="meter_point")
    op.drop_index(op.f("ix_meter_point_ean"), table_name="meter_point")
    op.drop_table("meter_point")
    op.drop_index(op.f("ix_supply_address_account_pk"), table_name="supply_address")
    op.drop_table("supply_address")
    op.drop_index(op.f("ix_statement_account_pk"), table_name="statement")
    op.drop_table("statement")
    op.drop_index(op.f("ix_ledger_account_pk"), table_name="ledger")
    op.drop_table("ledger")
    op.drop_index(op.f("ix_customer_account_pk"), table_name="customer")
    op.drop_table("customer")
    op.drop_index(op.f("ix_attempt_account_import_process_id"), table_name="attempt")
    op.drop_table("attempt")
    op.drop_table("account")
    op.drop_index(
        "ix_account_import_process_in_progress",
        table_name="account_import_process",
        postgresql_where=sa.text("state = 'IN_PROGRESS'"),
    )
    op.drop_table("account_import_process")
    op.drop_index(op.f("ix_import_supplier_organisation_id"), table_name="import_supplier")
    op.drop_table("import_supplier")
    op.drop_index(op.f("ix_api_key_organisation_id"), table_name="api_key")
    op.drop_table("api_key")
    op.drop_table("service_limit")
    op.drop_table("organisation")
    op.drop_table("operations_team")
