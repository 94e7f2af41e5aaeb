#!/bin/sh
# Builds Kubernetes, one program with all of its parts, into the cache. Does nothing where the cache has it. The modules come from Go's
# module proxy, pinned by program/go.sum. Low priority: it may run for minutes beside something else.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
# shellcheck source=deploy/cluster/settings.sh
. "$here/settings.sh"

mkdir -p "$cache"
# Two builds would need twice the memory for the same program: the second one waits, and then finds it.
if [ "${1:-}" != --locked ]; then
  exec flock -o "$cache/build.lock" sh "$0" --locked
fi
[ ! -x "$program/kube" ] || exit 0

missing go && fail "Go is missing, and Kubernetes is built from source: install Go ≥ $go_needed"
found=$(go env GOVERSION | sed 's/^go//')
[ "$(printf '%s\n' "$go_needed" "$found" | sort -V | head -n 1)" = "$go_needed" ] ||
  fail "Go $found is too old for Kubernetes $kubernetes: install Go ≥ $go_needed"

say "building Kubernetes $kubernetes (once; about ten minutes of processor time)"
began=$(date +%s)
rm -rf "$program.new"
mkdir -p "$program.new"
# What was compiled (3 GB) is kept only until the program is there: an interrupted build goes on where it was.
compiled=$cache/go-build
export GOCACHE="${GOCACHE:-$compiled}" CGO_ENABLED=0 GOFLAGS=-mod=readonly
version=k8s.io/component-base/version
minor=${kubernetes#*.}
low='nice -n 19'
missing ionice || low="$low ionice -c 3"
cd "$here/program"
$low go build -trimpath -buildvcs=false -o "$program.new/kube" \
  -ldflags "-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=${kubernetes%%.*} -X $version.gitMinor=${minor%%.*} -X $version.gitTreeState=clean -X $version.buildDate=1970-01-01T00:00:00Z" .
$low go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$program.new/pause" ./pause
for part in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do ln -s kube "$program.new/$part"; done
mv "$program.new" "$program"
rm -rf "$compiled"
# Programs of versions before this one, but for one that runs.
runs=$(cat "$run/program" 2>/dev/null || true)
runs=${runs:-$program}
find "${cache:?}" -maxdepth 1 -name 'kubernetes-*' ! -name "${program##*/}" ! -name "${runs##*/}" -exec rm -rf {} +
say "Kubernetes $kubernetes built in $((($(date +%s) - began) / 60)) min $((($(date +%s) - began) % 60)) s"
