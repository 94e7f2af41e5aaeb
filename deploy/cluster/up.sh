# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of cluster.sh: starts the cluster where none runs, and waits until pods can be made.

up() {
  began=$(now_ms)
  # One that was interrupted before its images were there is ended below, and started anew.
  if running && [ -e "$run/images" ]; then
    wait_until_ready
    usage
    return 0
  fi
  check_machine
  check_namespaces
  sh "$here/build.sh"
  sh "$here/packages.sh"
  timed 'program and packages'
  prepare_sandbox_image
  timed 'sandbox image'
  # What a killed run has left, with another cache perhaps, or before the machine was started anew.
  down
  state=$cache/state
  rm -rf "${state:?}"

  mkdir -p "$run" "$state/logs"
  chmod 700 "$state"
  echo "$state" >"$run/state"
  echo "$program" >"$run/program"
  save_kernel_settings
  make_cgroups
  for place in /run/containerd /var/lib/cni; do [ -d "$place" ] || { mkdir -p "$place" && echo "$place" >>"$run/folders"; }; done
  : >"$network"
  # A session of its own: Ctrl-C at the tests must not end the cluster in the middle of a pod.
  setsid unshare --net="$network" --mount --propagation slave --pid --fork --mount-proc --kill-child sh "$here/inside.sh" \
    >"$state/logs/inside.log" 2>&1 </dev/null &
  echo "$! $(start_time $!)" >"$run/process"

  wait_for 60 'containerd' timeout 10 ctr -a "$containerd_socket" version
  import_images
  : >"$run/images"
  timed 'images'
  wait_until_ready
  timed 'node'
  usage
}

wait_until_ready() {
  wait_for 120 'the Kubernetes API' test -s "$state/scheduler.kubeconfig"
  wait_for 120 'the node' in_cluster wait node "$node" --for=condition=Ready --timeout=1s
  # The API refuses pods in a namespace without it.
  wait_for 120 'the service account of the namespace default' in_cluster get serviceaccount default
}

# With the program that runs: another checkout may have started another version.
in_cluster() { nsenter --net="$network" "$(cat "$run/program")/kubectl" --kubeconfig "$state/admin.kubeconfig" --cache-dir "$state/kubectl" "$@"; }

helm_in_cluster() { nsenter --net="$network" env KUBECONFIG="$state/admin.kubeconfig" HELM_CACHE_HOME="$state/helm" HELM_CONFIG_HOME="$state/helm" HELM_DATA_HOME="$state/helm" "$helm" "$@"; }

# wait_for SECONDS WHAT COMMAND…: the clock counts, since a command can hang for as long as its timeout.
wait_for() {
  until=$(($(date +%s) + $1))
  what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ "$(date +%s)" -ge "$until" ] || ! running; then
      tail -n 5 "$state"/logs/*.log >&2
      fail "$what did not become ready; the ends of the logs are above, whole ones in $state/logs"
    fi
    sleep 0.2
  done
}

# In each hierarchy before the kubelet starts. A new group of cpuset is empty, and no process can be put into it.
make_cgroups() {
  cgroup_roots | while read -r hierarchy; do
    mkdir -p "$hierarchy/$name"
    [ -e "$hierarchy/cpuset.cpus" ] || continue
    [ ! -e "$hierarchy/tasks" ] || for file in cpuset.cpus cpuset.mems; do cat "$hierarchy/$file" >"$hierarchy/$name/$file"; done
  done
}

timed() {
  say "$1: $((($(now_ms) - began) / 1000)).$((($(now_ms) - began) % 1000 / 100)) s"
  began=$(now_ms)
}

usage() {
  version=$(cat "$run/program")
  version=${version##*/kubernetes-}
  cat <<USAGE
cluster: Kubernetes ${version%-*} runs, with one node ($node)
  kubectl      npm run --silent cluster -- kubectl get pods -A
  kubeconfig   $state/admin.kubeconfig
  network      nsenter --net=$network COMMAND    (its addresses exist only there)
  containerd   ctr -a $containerd_socket -n k8s.io images ls
  logs         $state/logs
  end          npm run cluster -- down
USAGE
}
