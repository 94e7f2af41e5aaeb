#!/bin/sh
# `npm test`: set up, then every test of the workspace and of the supervisor. Arguments go to vitest.
# The last line counts both: "N passed, N failed".
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
sh "$here/setup.sh" --tests
cd "$here/../.."

# shellcheck source=deploy/setup/cargo.sh
. "$here/cargo.sh"
# shellcheck source=deploy/setup/engine.sh
. "$here/engine.sh"
trap stop_engine EXIT
trap 'exit 130' INT

results=$(mktemp -d)
# Who ends a run that hangs wants to see how far each lane came.
trap 'tail -n 40 "$results"/*.log; exit 143' TERM
without_engine=
case " $* " in
  *"--project docker"* | *"--project=docker"*) engine=yes ;;
  *--project*) engine= ;;
  *) engine=yes ;;
esac
whole=
[ $# -gt 0 ] || whole=yes
if [ -n "$engine" ] && { ! ensure_engine || ! sh deploy/images/build.sh; }; then
  # What needs no engine still runs, and the tally says that the run as a whole has failed.
  without_engine=--without-engine
  set -- --project unit --project relay --project stack --project clients --project postgres-local "$@"
fi

# One run of vitest; its report and its status are what the tally reads. Where 40 tests fail, the rest would only take long.
vitest() {
  lane=$1
  shift
  lane_status=0
  echo 'did not end' >"$results/$lane.vitest.status"
  BOXOFFICE_FAILURES=$results/$lane.failures .tools/node node_modules/vitest/vitest.mjs run --bail=40 --reporter=default \
    --reporter=json --outputFile.json="$results/$lane.vitest.json" --reporter=./deploy/setup/failures.ts "$@" || lane_status=$?
  echo "$lane_status" >"$results/$lane.vitest.status"
}

if [ -n "$whole" ] && [ -z "$without_engine" ]; then
  # Most tests wait for something most of the time, so three lanes of about the same length take little longer than the longest of
  # them. What the two behind the first say is shown when it has ended.
  for lane in stack docker clients postgres-docker postgres-local waits unit relay; do echo 'did not begin' >"$results/$lane.vitest.status"; done
  {
    vitest docker --project docker
    vitest postgres-docker --project postgres-docker
    vitest clients --project clients
  } >"$results/docker-clients.log" 2>&1 &
  docker_lane=$!
  {
    # Two minutes in which both files only wait: the tests of cargo begin to be built. One that does not build fails below.
    {
      export CARGO_BUILD_JOBS=1
      in_supervisor test --no-run --quiet || true
    } &
    cargo_build=$!
    vitest waits --maxWorkers=2 --project waits --project waits-relay
    vitest unit --project unit
    vitest postgres-local --project postgres-local
    wait "$cargo_build"
  } >"$results/unit.log" 2>&1 &
  unit_lane=$!
  vitest stack --project stack
  vitest relay --project relay
  wait "$docker_lane" "$unit_lane"
  # What failed while an engine hung failed for that.
  if [ -f "$engine_restarted" ]; then
    echo "test: the Docker engine was started again in between; lanes with containers that failed run once more" >&2
    for lane in stack docker clients postgres-docker; do
      [ "$(cat "$results/$lane.vitest.status")" = 0 ] && continue
      rm -f "$results/$lane.failures" "$results/$lane.vitest.json"
      vitest "$lane" --project "$lane"
    done
  fi
  cat "$results/unit.log" "$results/docker-clients.log"
else
  vitest all "$@"
fi

# Which test shows which requirement can be said of a whole run only.
if [ -n "$whole" ]; then
  requirements_status=0
  .tools/node test/requirements/write-tests.ts "$results"/*.vitest.json || requirements_status=$?
  echo "$requirements_status" >"$results/requirements.status"
fi

# Cargo knows nothing of vitest's filters: with arguments, only what they name runs.
if [ -n "$whole" ]; then
  {
    cargo_status=0
    in_supervisor test --no-fail-fast 2>&1 || cargo_status=$?
    echo "$cargo_status" >"$results/cargo.status"
  } | tee "$results/cargo.log"
fi

# Whoever has the end of the output only must learn from it what failed.
cat "$results"/*.failures 2>/dev/null || true
if [ -n "$whole" ]; then grep -E '^test .* FAILED$|panicked at' "$results/cargo.log" || true; fi

status=0
.tools/node "$here/tally.ts" "$results" $without_engine || status=$?
rm -rf "$results"
exit "$status"
