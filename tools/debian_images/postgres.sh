# What the public image of PostgreSQL does with the variables, files and volume of docker-compose.yml.
set -eu
export PGDATA=/var/lib/postgresql/docker
if [ "$(id -u)" = 0 ]; then
    chown postgres:postgres /var/lib/postgresql /run/postgresql
    exec setpriv --reuid postgres --regid postgres --clear-groups sh "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth-host=scram-sha-256 --auth-local=trust -E UTF8
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    pg_ctl -o '-c listen_addresses=' -w start
    createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
    for script in /docker-entrypoint-initdb.d/*; do sh "$script"; done
    pg_ctl -m fast -w stop
fi
exec "$@" -c listen_addresses='*'
