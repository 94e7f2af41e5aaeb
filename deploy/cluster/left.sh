# shellcheck shell=sh
# shellcheck disable=SC2154 # the names are set by settings.sh
# Part of cluster.sh: lists what is there of a cluster besides the cache, looked up in the kernel and not in what up.sh has noted.

# left [--settings]: with it also the kernel settings, for a comparison.
left() {
  # Every process of its parts has its program, its state or its socket in the command line; pods are in its control groups.
  for command in /proc/[0-9]*/cmdline; do
    words=$(tr '\0' ' ' <"$command") 2>/dev/null || continue
    case $words in *"$program/"* | *"$state/"* | *"$run/"* | *"$debian/"* | *"$here/inside.sh"*) echo "process ${command%/cmdline}: $words" ;; esac
  done
  processes | sort -u | sed 's/^/process of a pod /'
  grep -E " ($run|$state|$images)/" /proc/mounts | sed 's/^/mount /' || true
  find /sys/fs/cgroup -maxdepth 2 -name "$name" | sed 's/^/control group /'
  for place in "$run" "$state" /var/log/containers /var/log/pods /run/netns/cni-*; do [ ! -e "$place" ] || echo "file $place"; done
  [ "${1:-}" = --settings ] || return 0
  for wanted in $kernel_settings; do echo "setting ${wanted%%=*} $(cat "/proc/sys/${wanted%%=*}")"; done
}
