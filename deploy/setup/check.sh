#!/bin/sh
# `npm run check`: everything that is read and not run. All parts run, so that one look shows all findings.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh" || exit 1
cd "$here/../.." || exit 1
PATH="$PWD/.tools/bin:$PWD/node_modules/.bin:$PATH"
export PATH

failed=
part() {
  name=$1
  shift
  "$@" || failed="$failed $name"
}
in_supervisor() { (cd packages/supervisor && "$@"); }

part types tsc -p .
part biome biome ci --error-on-warnings
part knip knip
part package-shape node deploy/setup/package-shape.ts
part cargo-fmt in_supervisor cargo fmt --check
part clippy in_supervisor cargo clippy --quiet --all-targets --target-dir target -- -D warnings

[ -z "$failed" ] || { echo "check: failed:$failed" >&2; exit 1; }
echo "check: ok"
