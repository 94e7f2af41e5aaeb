#!/bin/sh
# Makes a checkout runnable: Node, pnpm, dependencies, system packages, supervisor. `--tests` adds what the tests need.
# Safe to repeat and to run twice at once; each finished part leaves a stamp, so a second run only compares.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
root=$(dirname "$(dirname "$here")")
cd "$root"
mkdir -p .tools

# `-o` keeps the lock out of the children: a daemon started by a package's install script would hold it forever.
if [ "${1:-}" = --locked ]; then
  shift
elif command -v flock >/dev/null 2>&1; then
  exec flock -o .tools/lock sh "$here/setup.sh" --locked "$@"
fi

tests=
case ${1:-} in
  '') ;;
  --tests) tests=yes ;;
  *) echo "usage: setup.sh [--tests]" >&2; exit 2 ;;
esac

say() { echo "setup: $*" >&2; }

# shellcheck source=deploy/setup/cargo.sh
. "$here/cargo.sh"
# shellcheck source=deploy/setup/node.sh
. "$here/node.sh"
# shellcheck source=deploy/setup/system.sh
. "$here/system.sh"
# shellcheck source=deploy/setup/supervisor.sh
. "$here/supervisor.sh"
# shellcheck source=deploy/setup/python.sh
. "$here/python.sh"

choose_node
install_packages
# Pip and apt wait for the network, and the compiler of the supervisor uses one core: they run side by side. A setup that fails ends no
# earlier than both, which would otherwise go on after the lock is free.
if [ -n "$tests" ]; then
  trap wait EXIT
  install_python &
  python_install=$!
  install_browser &
  browser_install=$!
fi
install_dependencies
build_supervisor
"$root/.tools/node" --disable-warning=ExperimentalWarning deploy/package/bundle.ts
[ -z "$tests" ] || { wait "$python_install" && wait "$browser_install"; }
