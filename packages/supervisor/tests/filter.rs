//! The filter's verdicts, judged as the kernel would.

use boxoffice_supervisor::seccomp::program;
use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long};

const COOKIE: u64 = 0x1234_5678_9abc_def0;
const SUPERVISOR: u64 = 1;
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// 0 where the call is allowed, else the error that it ends with.
fn verdict(call: c_long, arguments: &[u64]) -> u32 {
    let mut data = vec![call as u32, ARCHITECTURE, 0, 0];
    for index in 0..6 {
        let argument = arguments.get(index).copied().unwrap_or(0);
        data.extend([argument as u32, (argument >> 32) as u32]);
    }
    let program = program(COOKIE, SUPERVISOR as u32);
    let (mut at, mut value) = (0, 0);
    loop {
        let step = program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        match u32::from(step.code) {
            code if code == BPF_LD | BPF_W | BPF_ABS => value = data[step.k as usize / 4],
            code if code == BPF_ALU | BPF_AND | BPF_K => value &= step.k,
            code if code == BPF_JMP | BPF_JEQ | BPF_K => at += jump(value == step.k),
            code if code == BPF_JMP | BPF_JSET | BPF_K => at += jump(value & step.k != 0),
            code if code == BPF_RET | BPF_K && step.k == libc::SECCOMP_RET_ALLOW => return 0,
            code if code == BPF_RET | BPF_K => return step.k & libc::SECCOMP_RET_DATA,
            code => panic!("instruction {code:#x}"),
        }
    }
}

const EPERM: u32 = libc::EPERM as u32;

#[test]
fn only_families_that_a_namespace_holds() {
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        for family in 0..64 {
            let is_known = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].contains(&family);
            let expected = if is_known { 0 } else { libc::EAFNOSUPPORT as u32 };
            assert_eq!(verdict(call, &[family as u64, 1, 0]), expected, "family {family}");
        }
    }
}

#[test]
fn limits_are_set_by_their_own_process_alone() {
    for resource in 0..16 {
        let own = if resource == u64::from(libc::RLIMIT_RTTIME) { EPERM } else { 0 };
        assert_eq!(verdict(libc::SYS_prlimit64, &[0, resource, 0x1000]), own);
        assert_eq!(verdict(libc::SYS_prlimit64, &[0, resource, 0x1_0000_0000]), own);
        for pid in [SUPERVISOR, 2, 0xffff_ffff] {
            assert_eq!(verdict(libc::SYS_prlimit64, &[pid, resource, 0, 0x1000]), 0);
            assert_eq!(verdict(libc::SYS_prlimit64, &[pid, resource, 0x1000, 0, 0, COOKIE]), EPERM);
            assert_eq!(verdict(libc::SYS_prlimit64, &[pid, resource, 0x1_0000_0000]), EPERM);
        }
    }
    let mark = [0, u64::from(libc::RLIMIT_RTTIME), 0x1000, 0, 0, COOKIE];
    assert_eq!(verdict(libc::SYS_prlimit64, &mark), 0);
    assert_eq!(verdict(libc::SYS_prlimit64, &[mark[0], mark[1], mark[2], 0, 0, COOKIE ^ 1 << 40]), EPERM);
}

#[test]
fn nothing_is_aimed_at_the_supervisor() {
    let aimed = [
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setaffinity,
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_rt_tgsigqueueinfo,
    ];
    for call in aimed {
        assert_eq!(verdict(call, &[SUPERVISOR, 0x1000]), EPERM);
        // The kernel takes a process's number from the lower half.
        assert_eq!(verdict(call, &[SUPERVISOR | 1 << 32, 0x1000]), EPERM);
        assert_eq!(verdict(call, &[0, 0x1000]), 0);
        assert_eq!(verdict(call, &[2, 0x1000]), 0);
    }
    for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        let [group, user] = [process + 1, process + 2];
        for (which, who, expected) in [
            (process, SUPERVISOR, EPERM),
            (group, SUPERVISOR, EPERM),
            (user, 0, EPERM),
            (user, 1000, EPERM),
            (process, 0, 0),
            (process, 2, 0),
            (group, 0, 0),
            (group, 2, 0),
        ] {
            assert_eq!(verdict(call, &[which, who, 1]), expected, "{which} {who}");
        }
    }
    assert_eq!(verdict(libc::SYS_pidfd_send_signal, &[3, 15, 0x1000]), EPERM);
    assert_eq!(verdict(libc::SYS_pidfd_send_signal, &[3, 15, 0x1_0000_0000]), EPERM);
    assert_eq!(verdict(libc::SYS_pidfd_send_signal, &[3, 15, 0]), 0);
}

#[test]
fn ordinary_calls_pass() {
    for call in [libc::SYS_read, libc::SYS_kill, libc::SYS_execve, libc::SYS_getpriority, libc::SYS_sched_getaffinity] {
        assert_eq!(verdict(call, &[SUPERVISOR]), 0);
    }
    assert_eq!(verdict(libc::SYS_mount, &[]), EPERM);
}
