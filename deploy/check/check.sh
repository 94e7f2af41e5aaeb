#!/bin/sh
# `npm run check`: everything that is read and not run. All parts run, so that one look shows all findings.
set -u
cd "$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)/../.." || exit 1
sh deploy/setup/setup.sh || exit 1
# shellcheck source=deploy/setup/cargo.sh
. deploy/setup/cargo.sh
PATH="$PWD/.tools/bin:$PWD/node_modules/.bin:$PATH"
export PATH

failed=
part() {
  name=$1
  shift
  "$@" || failed="$failed $name"
}
shape() {
  bad=
  for package in apps/*/package.json packages/*/package.json; do publint "$(dirname "$package")" --strict || bad=yes; done
  [ -z "$bad" ]
}

conflicts() {
  ! git grep -nE '^(<{7}|>{7}) ' -- .
}

part types tsc -p .
part biome biome ci --error-on-warnings
part layers node deploy/check/check-layers.ts
part knip knip
part package-shape shape
part conflicts conflicts
part cargo-fmt in_supervisor fmt --check
part clippy in_supervisor clippy --quiet --all-targets -- -D warnings

[ -z "$failed" ] || { echo "check: failed:$failed" >&2; exit 1; }
echo "check: ok"
