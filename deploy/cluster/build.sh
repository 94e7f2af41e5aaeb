#!/bin/sh
# Builds Kubernetes, one program with all of its parts, and Helm into the cache. Does nothing where the cache has them. The modules come
# from Go's module proxy, pinned by program/go.sum and helm/go.sum. Low priority: it may run for minutes beside something else.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
# shellcheck source=deploy/cluster/settings.sh
. "$here/settings.sh"
# shellcheck source=deploy/cluster/go.sh
. "$here/go.sh"

mkdir -p "$cache"
# Two builds would need twice the memory for the same program: the second one waits, and then finds it.
if [ "${1:-}" != --locked ]; then
  exec flock -o "$cache/build.lock" sh "$0" --locked
fi
if [ -x "$program/kube" ] && [ -x "$helm" ]; then exit 0; fi

choose_go
began=$(date +%s)
# What was compiled (3 GB) is kept only until the programs are there: an interrupted build goes on where it was.
compiled=$cache/go-build
export GOCACHE="${GOCACHE:-$compiled}" CGO_ENABLED=0 GOFLAGS=-mod=readonly
low='nice -n 19'
missing ionice || low="$low ionice -c 3"

build_kubernetes() {
  say "building Kubernetes $kubernetes (once; about ten minutes of processor time)"
  rm -rf "$program.new"
  mkdir -p "$program.new"
  version=k8s.io/component-base/version
  minor=${kubernetes#*.}
  cd "$here/program"
  $low go build -trimpath -buildvcs=false -o "$program.new/kube" \
    -ldflags "-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=${kubernetes%%.*} -X $version.gitMinor=${minor%%.*} -X $version.gitTreeState=clean -X $version.buildDate=1970-01-01T00:00:00Z" .
  $low go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$program.new/pause" ./pause
  for part in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do ln -s kube "$program.new/$part"; done
  mv "$program.new" "$program"
  # Programs of versions before this one, but for one that runs.
  runs=$(cat "$run/program" 2>/dev/null || true)
  runs=${runs:-$program}
  find "${cache:?}" -maxdepth 1 -name 'kubernetes-*' ! -name "${program##*/}" ! -name "${runs##*/}" -exec rm -rf {} +
}

# Its modules of Kubernetes are those of the program, so most of it is compiled already.
build_helm() {
  say "building Helm $helm_version (once)"
  # For which Kubernetes it renders where none is asked.
  chartutil=helm.sh/helm/v3/pkg/chartutil
  minor=${kubernetes#*.}
  cd "$here/helm"
  $low go build -trimpath -buildvcs=false -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=v$helm_version -X $chartutil.k8sVersionMajor=${kubernetes%%.*} -X $chartutil.k8sVersionMinor=${minor%%.*}" \
    -o "$helm.new" helm.sh/helm/v3/cmd/helm
  mv "$helm.new" "$helm"
  find "${cache:?}" -maxdepth 1 -name 'helm-*' ! -name "${helm##*/}" -exec rm -f {} +
}

[ -x "$program/kube" ] || build_kubernetes
[ -x "$helm" ] || build_helm
rm -rf "$compiled" "${cache:?}/go"
say "Kubernetes $kubernetes and Helm $helm_version built in $((($(date +%s) - began) / 60)) min $((($(date +%s) - began) % 60)) s"
