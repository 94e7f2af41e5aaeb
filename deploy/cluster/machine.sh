# shellcheck shell=sh
# Part of cluster.sh: says all that is missing on a machine on which the cluster cannot run, before anything is started.

check_machine() {
  lacks=
  lack() { lacks="$lacks
  - $*"; }
  [ "$(uname -s)" = Linux ] || lack "Linux (this is $(uname -s))"
  [ "$(id -u)" -eq 0 ] || lack "root: it makes namespaces, mounts and control groups"
  for program_of in containerd:containerd ctr:containerd runc:runc docker:docker.io ip:iproute2 nsenter:util-linux unshare:util-linux flock:util-linux \
    openssl:openssl curl:curl dpkg-deb:dpkg; do
    ! missing "${program_of%%:*}" || lack "the program ${program_of%%:*} (Debian's package ${program_of##*:})"
  done
  grep -qw overlay /proc/filesystems || lack "the file system overlay in the kernel (modprobe overlay)"
  [ -n "$(cgroup_roots)" ] || lack "control groups under /sys/fs/cgroup that can be written"
  [ -z "$lacks" ] || fail "this machine lacks:$lacks"
}

# What the namespace needs is tried in the way in which it is used; the kernel's own words say more than a guess.
check_namespaces() {
  tried=$(unshare --net --mount --pid --fork --mount-proc --propagation slave sh -c 'ip link add node0 type bridge && ip link add end0 type veth peer end1' 2>&1) ||
    fail "this machine gives no network namespace with a bridge and a pair of interfaces: $tried"
}

# Each hierarchy in which the kubelet makes groups: one of version 2, or those of version 1.
cgroup_roots() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    for hierarchy in systemd cpu cpuacct cpuset memory devices freezer blkio pids hugetlb perf_event; do
      [ ! -w "/sys/fs/cgroup/$hierarchy/tasks" ] || echo "/sys/fs/cgroup/$hierarchy"
    done
  fi
}
