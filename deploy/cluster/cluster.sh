#!/bin/sh
# `npm run cluster`: a real Kubernetes of one node on this machine, in namespaces of its own.
#   cluster.sh [up] | boxoffice [ARGS OF HELM…] | down | build | kubectl ARGS… | helm ARGS… | kwok ARGS… | runs | cached | left [--settings]
# `boxoffice` starts it too, and installs the chart there. `build` only fills the cache. `runs` says by its status whether one runs, `cached` whether its program is in the cache. `left` lists what there is of a cluster outside the cache: nothing, after `down`;
# with --settings also the settings of the kernel that it must not change.
# environment: BOXOFFICE_CLUSTER_CACHE, whose folder boxoffice-cluster is the cache (default: ~/.cache/boxoffice/cluster is)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
cd "$here/../.."
# shellcheck source=deploy/cluster/settings.sh
. "$here/settings.sh"
# shellcheck source=deploy/cluster/machine.sh
. "$here/machine.sh"
# shellcheck source=deploy/cluster/sysctls.sh
. "$here/sysctls.sh"
# shellcheck source=deploy/cluster/images.sh
. "$here/images.sh"
# shellcheck source=deploy/cluster/up.sh
. "$here/up.sh"
# shellcheck source=deploy/cluster/boxoffice.sh
. "$here/boxoffice.sh"
# shellcheck source=deploy/cluster/kwok.sh
. "$here/kwok.sh"
# shellcheck source=deploy/cluster/down.sh
. "$here/down.sh"
# shellcheck source=deploy/cluster/left.sh
. "$here/left.sh"
# shellcheck source=deploy/setup/engine.sh
. deploy/setup/engine.sh

what=${1:-up}
[ $# -eq 0 ] || shift
case $what in
  up | down | boxoffice)
    # Says what is missing.
    if [ "$(id -u)" -ne 0 ] || missing flock; then check_machine; fi
    # Two that start or end it at once would each see half of what the other does. `-o` keeps the lock out of what is started.
    exec flock -o "$run.lock" sh "$here/cluster.sh" "$what-locked" "$@"
    ;;
  up-locked | down-locked | boxoffice-locked)
    trap stop_engine EXIT
    trap 'exit 143' INT TERM
    "${what%-locked}" "$@"
    ;;
  build) sh "$here/build.sh" && sh "$here/packages.sh" ;;
  kubectl)
    running || fail "no cluster runs: npm run cluster"
    in_cluster "$@"
    ;;
  # Charts are rendered without a cluster, too.
  helm)
    [ -x "$helm" ] || sh "$here/build.sh"
    if running; then helm_in_cluster "$@"; else "$helm" "$@"; fi
    ;;
  kwok) kwok "$@" ;;
  runs) running ;;
  cached) [ -x "$program/kube" ] ;;
  left) left "$@" ;;
  *) echo "usage: cluster.sh [up] | boxoffice [ARGS OF HELM…] | down | build | kubectl ARGS… | helm ARGS… | kwok ARGS… | runs | cached | left [--settings]" >&2; exit 2 ;;
esac
