#!/bin/sh
# `npm start`: set up, then the whole product on this machine. Arguments go to `boxoffice up`.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh"

# Where an engine answers it will be chosen, and then sandboxes need their image.
case " $* " in *" --provider local "* | *" --provider=local "*) engine= ;; *) engine=yes ;; esac
if [ -n "$engine" ] && docker info >/dev/null 2>&1; then
  sh "$here/../images/build.sh" ||
    echo "start: the sandbox image is missing, so sandboxes of the docker provider will not start; --provider local needs none" >&2
fi

# npm has put its own folders on PATH. The terminal in which a reader tries the commands that `up` prints has none of them.
PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v '/node_modules/' | paste -s -d ':' -)
export PATH

exec "$here/../../node_modules/.bin/boxoffice" up "$@"
