#!/bin/sh
# Writes random passwords, keys and certificates for docker-compose.yml into .secrets/.
# Passwords stay as they are, because the servers store them at their first start. Certificates that
# end within 30 days are renewed.
set -eu
cd "$(dirname "$0")/../.."
# Containers read the files as other users; the folder keeps other users of this machine out.
umask 022
mkdir -p .secrets sources
chmod 700 .secrets
cd .secrets

put() { # NAME TEXT: without an end of line
  [ -s "$1" ] || printf '%s' "$2" > "$1"
}

password() { # NAME
  put "$1" "$(openssl rand -hex 24)"
}

database() { # ROLE
  password "$1"
  put "$1.url" "postgresql://$1:$(cat "$1")@postgres:5432/datarecs?sslmode=verify-full&sslrootcert=/run/secrets/ca.crt"
}

key() { # FILE: an elliptic key, PKCS #8
  openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt > "$1"
}

lasts() { # CERTIFICATE: it exists and ends in more than 30 days
  [ -s "$1" ] || return 1
  openssl x509 -in "$1" -noout -checkend 2592000 > /dev/null && return
  echo "renewed $1; restart with: docker compose up -d --force-recreate"
  return 1
}

certificate() { # SERVER: its key and certificate, for its name in the network
  lasts "$1.crt" && return
  key "$1.key"
  printf '%s\n' "subjectAltName=DNS:$1,DNS:localhost,IP:127.0.0.1" "basicConstraints=critical,CA:FALSE" \
    "keyUsage=critical,digitalSignature" "extendedKeyUsage=serverAuth" \
    "subjectKeyIdentifier=hash" "authorityKeyIdentifier=keyid" > "$1.ext"
  openssl req -new -key "$1.key" -subj "/CN=$1" |
    openssl x509 -req -sha256 -days 730 -CA ca.crt -CAkey ca.key -CAcreateserial \
      -extfile "$1.ext" -out "$1.crt" 2> /dev/null
  rm "$1.ext"
}

if ! lasts ca.crt; then
  # With the same key, the certificates of the servers stay valid.
  [ -s ca.key ] || key ca.key
  chmod 600 ca.key
  printf '%s\n' "[req]" "distinguished_name=name" "prompt=no" "x509_extensions=ca" "[name]" \
    "CN=datarecs compose" "[ca]" "basicConstraints=critical,CA:TRUE,pathlen:0" \
    "keyUsage=critical,keyCertSign,cRLSign" "subjectKeyIdentifier=hash" > ca.cnf
  openssl req -x509 -sha256 -new -key ca.key -days 3650 -config ca.cnf -out ca.crt
  rm ca.cnf
fi
for server in postgres kafka mail core-api; do
  certificate "$server"
done
cat kafka.key kafka.crt > kafka.pem

for role in postgres datarecs_migrate datarecs_api datarecs_controller datarecs_worker_run \
  datarecs_mail datarecs_webhook datarecs_resources datarecs_capture datarecs_sink datarecs_relay datarecs_read; do
  database "$role"
done
for login in admin run-controller relay email-notifier webhook-service operators; do
  password "kafka-$login"
done
password links-key
put kek "$(openssl rand -base64 32 | tr '+/' '-_')"
echo "passwords, keys and certificates are in $PWD"
