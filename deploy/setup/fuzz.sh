#!/bin/sh
# `npm run fuzz`: set up, then feed every program that takes bytes from strangers. Arguments go to test/fuzz/main.ts.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh" --tests
cd "$here/../.."
# shellcheck source=deploy/setup/cargo.sh
. "$here/cargo.sh"
# As `in_supervisor` does, for the targets that cargo runs.
CARGO_BUILD_TARGET=$(rust_host)
CARGO_TARGET_DIR=$PWD/packages/supervisor/target
export CARGO_BUILD_TARGET CARGO_TARGET_DIR
exec .tools/node --disable-warning=ExperimentalWarning test/fuzz/main.ts "$@"
