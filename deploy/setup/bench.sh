#!/bin/sh
# `npm run bench`: set up, then measure. Arguments go to the bench.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh" --tests
cd "$here/../.."
exec .tools/node --disable-warning=ExperimentalWarning test/bench/main.ts "$@"
