#!/bin/sh
# Entry of the broker's image. Secrets that nobody gives are made once and kept in the volume that the agent reads.
set -eu
umask 077
secrets=/run/boxoffice

secret() {
  if [ ! -s "$secrets/$1" ]; then
    head -c 33 /dev/urandom | base64 >"$secrets/$1.new"
    mv "$secrets/$1.new" "$secrets/$1"
  fi
  cat "$secrets/$1"
}

BOXOFFICE_API_KEY=${BOXOFFICE_API_KEY:-$(secret api-key)}
BOXOFFICE_ENROLL_TOKEN=${BOXOFFICE_ENROLL_TOKEN:-$(secret enroll-token)}
export BOXOFFICE_API_KEY BOXOFFICE_ENROLL_TOKEN
exec boxoffice broker "$@"
