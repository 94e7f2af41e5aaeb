# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of cluster.sh: kwok, which says of the pods of nodes that are not there that they run. Pinned by kwok/go.sum; only who asks for it
# builds it.

# kwok ARGS…: runs in the cluster's network until it is ended, for nodes with the annotation `kwok.x-k8s.io/node`.
kwok() {
  running || fail "no cluster runs: npm run cluster"
  [ -x "$kwok" ] || build_kwok
  exec nsenter --net="$network" "$kwok" --kubeconfig "$state/admin.kubeconfig" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake "$@"
}

build_kwok() {
  # shellcheck source=deploy/cluster/go.sh
  . "$here/go.sh"
  choose_go
  say "building kwok (once)"
  (cd "$here/kwok" && GOCACHE="$cache/go-build" CGO_ENABLED=0 GOFLAGS=-mod=readonly nice -n 19 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$kwok.new" sigs.k8s.io/kwok/cmd/kwok)
  mv "$kwok.new" "$kwok"
  find "${cache:?}" -maxdepth 1 -name 'kwok-*' ! -name "${kwok##*/}" -exec rm -f {} +
  rm -rf "${cache:?}/go-build" "${cache:?}/go"
}
