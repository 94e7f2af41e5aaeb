#!/bin/sh
# `npm run verify:editable`, `verify:cli`, `verify:package`, `verify:published`, `verify:release`: does what is installed run? Needs a checkout that was set up.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
PATH="$here/../../.tools/bin:$PATH"
export PATH
exec node --disable-warning=ExperimentalWarning "$here/verify.ts" "$@"
