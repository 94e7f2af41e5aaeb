#!/bin/sh
# `npm run bench`, `npm run test:scale`: set up, then run the program that the first argument names, with the rest.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh" --tests
cd "$here/../.."
exec .tools/node --disable-warning=ExperimentalWarning "$@"
