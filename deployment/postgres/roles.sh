#!/bin/sh
# Makes the two roles of the service in its database. The image runs this at the first start of an empty volume.
# It can be run again, and for a volume of an earlier version it has to be, once:
#
#   docker-compose exec postgres sh /docker-entrypoint-initdb.d/roles.sh
#
# migration_owner owns the tables; only the revisions use it. migration_service changes rows, and no tables.
set -eu
OWNER_PASSWORD=$(cat "$OWNER_PASSWORD_FILE")
SERVICE_PASSWORD=$(cat "$SERVICE_PASSWORD_FILE")

psql --no-psqlrc -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
    -v database="$POSTGRES_DB" -v superuser="$POSTGRES_USER" \
    -v owner_password="$OWNER_PASSWORD" -v service_password="$SERVICE_PASSWORD" <<'SQL'
SELECT format('CREATE ROLE %I LOGIN', role)
FROM unnest(ARRAY['migration_owner', 'migration_service']) AS role
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
ALTER ROLE migration_owner PASSWORD :'owner_password';
ALTER ROLE migration_service PASSWORD :'service_password';
ALTER DATABASE :"database" OWNER TO migration_owner;
-- What the superuser made in an earlier version.
SELECT format('ALTER %s %s OWNER TO migration_owner',
              CASE relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, pg_class.oid::regclass)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
  AND pg_get_userbyid(relowner) = :'superuser'
  AND NOT EXISTS (SELECT FROM pg_depend  -- a sequence of a column follows its table
                  WHERE objid = pg_class.oid AND deptype IN ('a', 'i') AND relkind = 'S') \gexec
SELECT format('ALTER FUNCTION %s OWNER TO migration_owner', oid::regprocedure)
FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND pg_get_userbyid(proowner) = :'superuser' \gexec
SQL
