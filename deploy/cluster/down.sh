# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of cluster.sh: ends the cluster and leaves nothing of it but the cache. Everything is found by what up.sh has noted in $run.

# Whether the process that up.sh has started is still that one: a number is used again.
running() {
  [ -e "$run/process" ] || return 1
  read -r process started <"$run/process"
  [ "$(start_time "$process")" = "$started" ]
}

# Nothing for one that has ended and that nobody has waited for.
start_time() { awk '$3 != "Z" { print $22 }' "/proc/$1/stat" 2>/dev/null || true; }

down() {
  [ -d "$run" ] || return 0
  if running; then
    first=$(children "$process")
    remove_containers
    # The kernel ends every process of a process namespace with its first one, and with the last the mounts that only they saw.
    # shellcheck disable=SC2086 # a list of numbers, which may be empty
    kill -KILL $first "$process" 2>/dev/null || true
    waited=0
    while running || [ -n "$(processes)" ]; do
      [ "$waited" -lt 300 ] || fail "these processes do not end: $(processes | tr '\n' ' ')"
      waited=$((waited + 1))
      sleep 0.1
    done
  fi
  umount "$network" 2>/dev/null || true
  waited=0
  # A group stays busy until the kernel has done with the last process that was in it.
  until remove_cgroups 2>/dev/null; do
    [ "$waited" -lt 100 ] || { remove_cgroups; exit 1; }
    waited=$((waited + 1))
    sleep 0.1
  done
  restore_kernel_settings
  # The machine's own containerd may use them since.
  [ ! -e "$run/folders" ] || while read -r folder; do rmdir "$folder" 2>/dev/null || true; done <"$run/folders"
  rm -rf "${state:?}" "${run:?}"
}

# The kubelet first: it would start them again. Then containerd forgets them, and keeps the images.
remove_containers() {
  for part in $(for child in $first; do children "$child"; done); do
    [ "$(cat "/proc/$part/comm" 2>/dev/null)" != kubelet ] || kill -KILL "$part" 2>/dev/null || true
  done
  for container in $(ctr_here containers ls -q 2>/dev/null); do
    ctr_here tasks rm -f "$container" >/dev/null 2>&1 || true
    ctr_here containers rm "$container" >/dev/null 2>&1 || true
  done
}

remove_cgroups() {
  for group in /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name"; do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + || return 1
  done
}

children() { cat "/proc/$1/task/$1/children" 2>/dev/null || true; }

# The number alone: the kernel writes a space behind each.
first_child() { children "$1" | cut -d ' ' -f 1; }

ctr_here() { timeout 60 ctr -a "$containerd_socket" -n k8s.io "$@"; }

# Those of pods, by their control groups.
processes() { find /sys/fs/cgroup/"$name" /sys/fs/cgroup/*/"$name" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u || true; }
