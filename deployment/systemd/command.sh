#!/bin/sh
# /usr/local/sbin/migration-service: the operators' command, with the settings of the units. Only root can read the
# secrets: run it with sudo, whose user is named in the audit trail. MIGRATION_SERVICE_RELEASE names the folder of
# another version than the current one.
set -eu
umask 077
set -a
. /etc/migration-service/environment
MIGRATION_SERVICE_HOME=/var/lib/migration-service
MIGRATION_SERVICE_UPLOAD_FOLDER=/var/lib/migration-service
set +a
for file in /etc/migration-service/secrets/*; do
    [ ! -s "$file" ] || export "$(basename "$file")_FILE=$file"
done
exec "${MIGRATION_SERVICE_RELEASE:-/opt/migration-service/current}/.venv/bin/migration-service" "$@"
