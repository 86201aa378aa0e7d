"""Changes of API keys, sessions and import suppliers notify the web processes, which keep them in memory

Revision ID: 0017
Revises: 0016
"""

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# Not the columns that say when something was last used. Not INSERT: what is not found is not kept.
_WATCHED = {
    "api_key": (
        "id, prefix, organisation_id, scopes, import_supplier_ids, allowed_networks, expires_at, revoked_at"
    ),
    "token_session": "id, api_key_id, ended_at",
    "import_supplier": (
        "id, organisation_id, code, status, profile, document_root, sends_customer_emails, created_at"
    ),
    "organisation": "id, name",
}

# The notification is sent when the transaction is committed, once however often it was raised.
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
    op.execute(_FUNCTION)
    for table, columns in _WATCHED.items():
        op.execute(_TRIGGER.format(table=table, columns=columns))


def downgrade() -> None:
    for table in _WATCHED:
        op.execute(f"DROP TRIGGER reference_changed ON {table}")
    op.execute("DROP FUNCTION reference_changed()")
