# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154 # read by the scripts that source this; those set `here`
# Names and places of the cluster, for the scripts beside this one. `here` is their folder.

kubernetes=1.34.4 # the last minor version whose kubelet takes control groups of version 1 by default
go_needed=1.24

# Files below it are removed, so in a folder that is given it is a folder of our own.
cache=${BOXOFFICE_CLUSTER_CACHE:+${BOXOFFICE_CLUSTER_CACHE%/}/boxoffice-cluster}
cache=${cache:-${HOME:?}/.cache/boxoffice/cluster}
sources=$(cat "$here/program/main.go" "$here/program/pause/main.go" "$here/program/go.mod" "$here/program/go.sum" | cksum | cut -d ' ' -f 1)
program=$cache/kubernetes-$kubernetes-$sources
helm_version=3.19.5 # of those that know this Kubernetes
helm=$cache/helm-$helm_version-$(cat "$here/helm/go.mod" "$here/helm/go.sum" | cksum | cut -d ' ' -f 1)
kwok=$cache/kwok-$(cat "$here/kwok/go.mod" "$here/kwok/go.sum" | cksum | cut -d ' ' -f 1)
debian=$cache/debian
images=$cache/images

# One cluster a machine: what the kernel names is named here.
name=boxoffice-cluster
run=/run/$name
network=$run/network # its network namespace
# Where the running one is, started with another cache perhaps.
state=$(cat "$run/state" 2>/dev/null || true)
state=${state:-$cache/state}
containerd_socket=$run/containerd.sock

# Addresses inside the network namespace only.
node=node1
node_ip=172.30.77.1
pod_cidr=172.30.78.0/24
service_cidr=172.30.79.0/24
api_ip=172.30.79.1 # the first address of service_cidr: Kubernetes gives it to the service `kubernetes`

say() { echo "cluster: $*" >&2; }
fail() { say "$*"; exit 1; }
missing() { ! command -v "$1" >/dev/null 2>&1; }
now_ms() { date +%s%3N; }

case $cache in /*) ;; *) fail "BOXOFFICE_CLUSTER_CACHE must be an absolute path: the cache would be $cache" ;; esac
