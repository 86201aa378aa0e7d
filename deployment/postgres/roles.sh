#!/bin/sh
# Makes the two roles of the service in its database. The image runs this at the first start of an empty volume.
# It can be run again.
# migration_owner owns the tables; only the revisions use it. migration_service changes rows, and no tables.
set -eu
OWNER_PASSWORD=$(cat "$OWNER_PASSWORD_FILE")
SERVICE_PASSWORD=$(cat "$SERVICE_PASSWORD_FILE")

psql --no-psqlrc -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
    -v database="$POSTGRES_DB" -v owner_password="$OWNER_PASSWORD" -v service_password="$SERVICE_PASSWORD" <<'SQL'
SELECT format('CREATE ROLE %I LOGIN', role)
FROM unnest(ARRAY['migration_owner', 'migration_service']) AS role
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
ALTER ROLE migration_owner PASSWORD :'owner_password';
ALTER ROLE migration_service PASSWORD :'service_password';
ALTER DATABASE :"database" OWNER TO migration_owner;
SQL
