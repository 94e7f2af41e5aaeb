#!/bin/sh
# `npm start`: set up, then the whole product on this machine.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh"
exec "$here/../../node_modules/.bin/boxoffice" up "$@"
