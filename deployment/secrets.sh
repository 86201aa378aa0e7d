#!/bin/sh
# Makes the secrets of docker-compose.yml, each a file in ./secrets (or in $MIGRATION_SERVICE_SECRETS):
#
#   sh deployment/secrets.sh
#
# It keeps the files that exist, so it can be run again.
# Only you can enter the folder. The files themselves can be read by everybody, because the users of the containers,
# each of which sees its own secrets only, are not yours.
set -eu
umask 022
folder=${MIGRATION_SERVICE_SECRETS:-./secrets}
mkdir -p -m 700 "$folder"

# write NAME TEXT: unless the file exists.
write() {
    [ -e "$folder/$1" ] || { printf '%s\n' "$2" > "$folder/$1"; chmod 444 "$folder/$1"; }
}

for name in POSTGRES_PASSWORD OWNER_PASSWORD SERVICE_PASSWORD VALKEY_PASSWORD FLOWER_PASSWORD \
    MIGRATION_SERVICE_SECRET_KEY; do
    # Letters and digits only, because some become part of addresses.
    write "$name" "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')"
done
# A certificate that signs itself, until you replace both files with yours.
[ -e "$folder/TLS_KEY" ] || {
    openssl req -x509 -newkey rsa:2048 -nodes -days 825 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout "$folder/TLS_KEY" -out "$folder/TLS_CERTIFICATE" 2> /dev/null
    chmod 444 "$folder/TLS_KEY" "$folder/TLS_CERTIFICATE"
}
# Those that may be empty: the bearer token of Prometheus, further signing keys, and the mail server.
for name in MIGRATION_SERVICE_METRICS_TOKEN MIGRATION_SERVICE_ACCEPTED_SECRET_KEYS MIGRATION_SERVICE_SMTP_URL; do
    write "$name" ""
done
# The key that signs certificates, and the one that encrypts the secrets of webhooks in the database.
write MIGRATION_SERVICE_CERTIFICATE_KEY "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')"
write MIGRATION_SERVICE_WEBHOOK_SECRET_KEYS "$(head -c 32 /dev/urandom | base64 | tr '+/' '-_')"
write DATABASE_URL "postgresql://migration_service:$(cat "$folder/SERVICE_PASSWORD")@postgres:5432/migration"
write MIGRATION_SERVICE_OWNER_DATABASE_URL \
    "postgresql://migration_owner:$(cat "$folder/OWNER_PASSWORD")@postgres:5432/migration"
write REDIS_URL "redis://:$(cat "$folder/VALKEY_PASSWORD")@valkey:6379/0"
