#!/bin/sh
# `npm run test:cluster`: set up, start the cluster, run `*.cluster.test.ts` and the suites of every place on PostgreSQL, end it, and compare
# what it has left. Arguments go to vitest.
# A cluster that runs already is used and kept. The last line says "N passed, N failed".
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
sh deploy/setup/setup.sh --tests
# shellcheck source=deploy/setup/engine.sh
. deploy/setup/engine.sh

results=$(mktemp -d)
ours=
finish() {
  [ -z "$ours" ] || sh "$here/cluster.sh" down || true
  stop_engine
  rm -rf "$results"
}
trap finish EXIT
trap 'exit 143' INT TERM
failed() { echo "test:cluster: $*" >&2; echo "0 passed, 1 failed"; exit 1; }

# The engine has the sandbox image, and tests of the providers side by side need it longer than `cluster.sh up` does.
ensure_engine || failed "no Docker engine"
sh "$here/cluster.sh" left --settings >"$results/before"
if sh "$here/cluster.sh" runs; then echo "test:cluster: using the cluster that runs; it stays" >&2; else ours=yes; fi
sh "$here/cluster.sh" up || failed "the cluster did not start; its words are above"

began=$(date +%s)
status=0
echo 'did not end' >"$results/cluster.vitest.status"
BOXOFFICE_FAILURES=$results/cluster.failures .tools/node node_modules/vitest/vitest.mjs run --reporter=default --reporter=json \
  --outputFile.json="$results/cluster.vitest.json" --reporter=./deploy/setup/failures.ts --project cluster --project postgres-kubernetes "$@" || status=$?
echo "$status" >"$results/cluster.vitest.status"
echo "cluster: tests: $(($(date +%s) - began)) s" >&2

if [ -n "$ours" ]; then
  ours=
  sh "$here/cluster.sh" down || failed "the cluster did not end"
  sh "$here/cluster.sh" left --settings >"$results/after"
  diff "$results/before" "$results/after" >&2 || failed "the cluster has left something, above: < is what was there before, > what is there now"
fi
cat "$results/cluster.failures" 2>/dev/null || true
.tools/node deploy/setup/tally.ts "$results"
