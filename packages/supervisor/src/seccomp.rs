//! The filter over everything that runs in the sandbox: what a container engine's default profile refuses, families of
//! sockets that no network namespace holds, calls that aim at PID 1, and the one limit that tags a process's descendants.

use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

// Offsets in the kernel's `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const fn low(argument: u32) -> u32 {
    16 + 8 * argument
}
const fn high(argument: u32) -> u32 {
    low(argument) + 4
}

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const EAFNOSUPPORT: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const CLONE_NEWTIME: u32 = 0x80;

// Signed or not by the libc that the target has.
#[allow(clippy::unnecessary_cast)]
const RTTIME: u32 = libc::RLIMIT_RTTIME as u32;
#[allow(clippy::unnecessary_cast)]
const USER: u32 = libc::PRIO_USER as u32;

// musl's headers for aarch64 have no name for it.
#[cfg(target_arch = "x86_64")]
const SYS_KEXEC_FILE_LOAD: libc::c_long = 320;
#[cfg(target_arch = "aarch64")]
const SYS_KEXEC_FILE_LOAD: libc::c_long = 294;

const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    SYS_KEXEC_FILE_LOAD,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_writev,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
];

/// Families of which every network namespace has its own, or which are bound to files. Others (VSOCK) are shared with the host.
pub const OF_NAMESPACE: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// For a sandbox without any network, whatever its namespace has.
pub const UNIX_ALONE: &[i32] = &[libc::AF_UNIX];

/// Calls with the process that they change or signal as their first argument.
const AIMED: &[libc::c_long] = &[
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

const IOPRIO_WHO_USER: u32 = 3;

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn give(verdict: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, verdict)
}

/// Goes on with the next instruction where the value equals `k`, else skips `otherwise`.
fn equals(k: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: 0, jf: otherwise, k }
}

/// The other way round.
fn not_equal(k: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: otherwise, jf: 0, k }
}

fn any_bit(k: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JSET | BPF_K) as u16, jt: 0, jf: otherwise, k }
}

/// Rules for one call, entered with its number loaded; `rules` has to end with a verdict on every way.
fn on(program: &mut Vec<sock_filter>, call: libc::c_long, rules: &[sock_filter]) {
    program.push(equals(call as u32, rules.len() as u8));
    program.extend_from_slice(rules);
}

/// Rules of a call whose arguments `which` and `who` name a process, a group or a user. A user as a whole is refused, the supervisor
/// belongs to it; groups are not, nobody can join the supervisor's, which bears its number.
fn spares(pid: u32, user: u32) -> [sock_filter; 7] {
    [load(low(0)), equals(user, 1), give(EPERM), load(low(1)), equals(pid, 1), give(EPERM), give(ALLOW)]
}

/// `pid`: the supervisor's own number, as processes of the sandbox see it. `cookie`: what our own children pass as the sixth argument of prlimit64, which the kernel ignores. It exists in the
/// memory of the untraceable supervisor only. `families`: of the sockets that are allowed.
pub fn program(cookie: u64, pid: u32, families: &[i32]) -> Vec<sock_filter> {
    // Another architecture's call numbers (32-bit) would go around every rule below.
    let mut out = vec![load(ARCH), not_equal(ARCHITECTURE, 1), give(ENOSYS), load(NUMBER)];
    #[cfg(target_arch = "x86_64")]
    out.extend([any_bit(0x4000_0000, 1), give(ENOSYS)]);
    for call in REFUSED {
        on(&mut out, *call, &[give(EPERM)]);
    }
    // Its flags are behind a pointer; libc falls back to clone, whose flags can be judged.
    on(&mut out, libc::SYS_clone3, &[give(ENOSYS)]);
    on(&mut out, libc::SYS_clone, &[load(low(0)), any_bit(NAMESPACES, 1), give(EPERM), give(ALLOW)]);
    on(&mut out, libc::SYS_unshare, &[load(low(0)), any_bit(NAMESPACES | CLONE_NEWTIME, 1), give(EPERM), give(ALLOW)]);
    on(
        &mut out,
        libc::SYS_ioctl,
        &[
            load(low(1)),
            equals(libc::TIOCSTI as u32, 1),
            give(EPERM),
            equals(libc::TIOCLINUX as u32, 1),
            give(EPERM),
            give(ALLOW),
        ],
    );
    // As in container engines: PER_LINUX, PER_LINUX32, UNAME26 of each, and the question.
    on(
        &mut out,
        libc::SYS_personality,
        &[
            load(low(0)),
            equals(0xffff_ffff, 1),
            give(ALLOW),
            statement(BPF_ALU | BPF_AND | BPF_K, !0x2_0008),
            equals(0, 1),
            give(ALLOW),
            give(EPERM),
        ],
    );
    on(&mut out, libc::SYS_setrlimit, &[load(low(0)), equals(RTTIME, 1), give(EPERM), give(ALLOW)]);
    on(
        &mut out,
        libc::SYS_prlimit64,
        &[
            // A null pointer sets nothing.
            load(low(2)),
            equals(0, 3),
            load(high(2)),
            equals(0, 1),
            give(ALLOW),
            // Only the caller's own limits: the supervisor's belong to the same user.
            load(low(0)),
            not_equal(0, 1),
            give(EPERM),
            load(low(1)),
            not_equal(RTTIME, 1),
            give(ALLOW),
            load(low(5)),
            equals(cookie as u32, 3),
            load(high(5)),
            equals((cookie >> 32) as u32, 1),
            give(ALLOW),
            give(EPERM),
        ],
    );
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let mut rules = vec![load(low(0))];
        rules.extend(families.iter().flat_map(|family| [equals(*family as u32, 1), give(ALLOW)]));
        rules.push(give(EAFNOSUPPORT));
        on(&mut out, call, &rules);
    }
    for call in AIMED {
        on(&mut out, *call, &[load(low(0)), equals(pid, 1), give(EPERM), give(ALLOW)]);
    }
    on(&mut out, libc::SYS_setpriority, &spares(pid, USER));
    on(&mut out, libc::SYS_ioprio_set, &spares(pid, IOPRIO_WHO_USER));
    // With information of the sender's making, which libc does not use.
    on(
        &mut out,
        libc::SYS_pidfd_send_signal,
        &[load(low(2)), equals(0, 3), load(high(2)), equals(0, 1), give(ALLOW), give(EPERM)],
    );
    out.push(give(ALLOW));
    out
}
