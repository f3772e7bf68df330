#!/bin/sh
# The first start of the official image: a new database with the password of a file.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA"
  # shellcheck disable=SC2086
  initdb --pgdata="$PGDATA" --username=postgres --pwfile="$POSTGRES_PASSWORD_FILE" \
    ${POSTGRES_INITDB_ARGS:-}
  printf "listen_addresses = '*'\nunix_socket_directories = ''\n" >> "$PGDATA/postgresql.conf"
  printf 'host all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
fi
exec "$@"
