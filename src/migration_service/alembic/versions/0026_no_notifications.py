"""Changes of API keys, sessions and import suppliers notify nobody any more

Revision ID: 0026
Revises: 0025
"""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

# As revisions 0017 and 0023 left them.
_WATCHED = {
    "api_key": (
        "id, prefix, organisation_id, scopes, import_supplier_ids, allowed_networks, expires_at, revoked_at"
    ),
    "token_session": "id, api_key_id, ended_at",
    "import_supplier": (
        "id, organisation_id, code, status, profile, document_root, sends_customer_emails, created_at, "
        "time_zone"
    ),
    "organisation": "id, name",
}

_FUNCTION = """
    CREATE FUNCTION reference_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('migration_reference', '');
        RETURN NULL;
    END $$
"""

_TRIGGER = """
    CREATE TRIGGER reference_changed AFTER UPDATE OF {columns} OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION reference_changed()
"""


def upgrade() -> None:
    # Web processes of the version before count the triggers, and look rows up each time without them.
    for table in _WATCHED:
        op.execute(f"DROP TRIGGER reference_changed ON {table}")
    op.execute("DROP FUNCTION reference_changed()")


def downgrade() -> None:
    op.execute(_FUNCTION)
    for table, columns in _WATCHED.items():
        op.execute(_TRIGGER.format(table=table, columns=columns))
