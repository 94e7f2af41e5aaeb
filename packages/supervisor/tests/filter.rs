//! The filter's verdicts, judged as the kernel would.

use boxoffice_supervisor::seccomp::{OF_NAMESPACE, UNIX_ALONE, program};
use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, c_long};

const COOKIE: u64 = 0x1234_5678_9abc_def0;
const SUPERVISOR: u64 = 1;
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// 0 where the call is allowed, else the error that it ends with.
fn verdict(call: c_long, arguments: &[u64]) -> u32 {
    verdict_on(ARCHITECTURE, call, arguments)
}

fn verdict_on(architecture: u32, call: c_long, arguments: &[u64]) -> u32 {
    verdict_of(OF_NAMESPACE, architecture, call, arguments)
}

fn verdict_of(families: &[i32], architecture: u32, call: c_long, arguments: &[u64]) -> u32 {
    let mut data = vec![call as u32, architecture, 0, 0];
    for index in 0..6 {
        let argument = arguments.get(index).copied().unwrap_or(0);
        data.extend([argument as u32, (argument >> 32) as u32]);
    }
    let program = program(COOKIE, SUPERVISOR as u32, families);
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
const ENOSYS: u32 = libc::ENOSYS as u32;
const RTTIME: u64 = libc::RLIMIT_RTTIME as u64;

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
fn sockets_of_files_alone_without_inet() {
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        for family in 0..64 {
            let expected = if family == libc::AF_UNIX { 0 } else { libc::EAFNOSUPPORT as u32 };
            assert_eq!(verdict_of(UNIX_ALONE, ARCHITECTURE, call, &[family as u64, 1, 0]), expected, "family {family}");
        }
    }
}

#[test]
fn limits_are_set_by_their_own_process_alone() {
    for resource in 0..16 {
        let own = if resource == RTTIME { EPERM } else { 0 };
        assert_eq!(verdict(libc::SYS_prlimit64, &[0, resource, 0x1000]), own);
        assert_eq!(verdict(libc::SYS_prlimit64, &[0, resource, 0x1_0000_0000]), own);
        for pid in [SUPERVISOR, 2, 0xffff_ffff] {
            assert_eq!(verdict(libc::SYS_prlimit64, &[pid, resource, 0, 0x1000]), 0);
            assert_eq!(verdict(libc::SYS_prlimit64, &[pid, resource, 0x1000, 0, 0, COOKIE]), EPERM);
            assert_eq!(verdict(libc::SYS_prlimit64, &[pid, resource, 0x1_0000_0000]), EPERM);
        }
    }
    let tag = [0, RTTIME, 0x1000, 0, 0, COOKIE];
    assert_eq!(verdict(libc::SYS_prlimit64, &tag), 0);
    assert_eq!(verdict(libc::SYS_prlimit64, &[tag[0], tag[1], tag[2], 0, 0, COOKIE ^ 1 << 40]), EPERM);
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

/// As the kernel's own tables number them (x86: `syscall_64.tbl`, ARM: `asm-generic/unistd.h`), -1 where there is no such call. libc's
/// names are not asked, as the filter is made with them.
const NUMBER: usize = if cfg!(target_arch = "x86_64") { 0 } else { 1 };
#[rustfmt::skip]
const REFUSED: &[(&str, [c_long; 2])] = &[
    ("acct", [163, 89]), ("add_key", [248, 217]), ("bpf", [321, 280]), ("clock_settime", [227, 112]),
    ("delete_module", [176, 106]), ("finit_module", [313, 273]), ("fsconfig", [431, 431]), ("fsmount", [432, 432]),
    ("fsopen", [430, 430]), ("fspick", [433, 433]), ("init_module", [175, 105]), ("io_uring_enter", [426, 426]),
    ("io_uring_register", [427, 427]), ("io_uring_setup", [425, 425]), ("kexec_file_load", [320, 294]),
    ("kexec_load", [246, 104]), ("keyctl", [250, 219]), ("mount", [165, 40]), ("mount_setattr", [442, 442]),
    ("move_mount", [429, 429]), ("open_by_handle_at", [304, 265]), ("open_tree", [428, 428]), ("perf_event_open", [298, 241]),
    ("pivot_root", [155, 41]), ("process_vm_writev", [311, 271]), ("quotactl", [179, 60]), ("reboot", [169, 142]),
    ("request_key", [249, 218]), ("setns", [308, 268]), ("settimeofday", [164, 170]), ("swapoff", [168, 225]),
    ("swapon", [167, 224]), ("syslog", [103, 116]), ("umount2", [166, 39]), ("userfaultfd", [323, 282]), ("vhangup", [153, 58]),
    ("ioperm", [173, -1]), ("iopl", [172, -1]),
];

#[test]
fn the_numbers_of_the_kernel_are_refused_and_no_others() {
    let [clone3, socket, socketpair] = [[435, 435], [41, 198], [53, 199]].map(|numbers: [c_long; 2]| numbers[NUMBER]);
    for number in 0..1024 {
        let refused = REFUSED.iter().find(|(_, numbers)| numbers[NUMBER] == number);
        let expected = match number {
            _ if refused.is_some() => EPERM,
            _ if number == clone3 => ENOSYS,
            // Family 0 is none of those that are allowed.
            _ if number == socket || number == socketpair => libc::EAFNOSUPPORT as u32,
            _ => 0,
        };
        assert_eq!(verdict(number, &[]), expected, "call {number} {refused:?}");
    }
}

#[test]
fn rules_for_arguments_are_those_of_the_kernels_numbers() {
    let rows: &[(&str, [c_long; 2], &[u64])] = &[
        ("clone", [56, 220], &[libc::CLONE_NEWUSER as u64]),
        ("unshare", [272, 97], &[libc::CLONE_NEWNS as u64]),
        ("ioctl", [16, 29], &[0, 0x5412]),         // TIOCSTI
        ("personality", [135, 92], &[0x004_0000]), // ADDR_NO_RANDOMIZE
        ("setrlimit", [160, 164], &[RTTIME, 0x1000]),
        ("prlimit64", [302, 261], &[2, 0, 0x1000]),
        ("rt_sigqueueinfo", [129, 138], &[SUPERVISOR]),
        ("rt_tgsigqueueinfo", [297, 240], &[SUPERVISOR]),
        ("sched_setaffinity", [203, 122], &[SUPERVISOR]),
        ("sched_setattr", [314, 274], &[SUPERVISOR]),
        ("sched_setparam", [142, 118], &[SUPERVISOR]),
        ("sched_setscheduler", [144, 119], &[SUPERVISOR]),
        ("setpriority", [141, 140], &[2]),
        ("ioprio_set", [251, 30], &[3]),
        ("pidfd_send_signal", [424, 424], &[3, 15, 0x1000]),
    ];
    for (name, numbers, arguments) in rows {
        assert_eq!(verdict(numbers[NUMBER], arguments), EPERM, "{name}");
    }
}

#[test]
fn calls_of_another_architecture_are_not_there() {
    // 32-bit x86, 32-bit ARM, and the other one of 64 bits.
    for architecture in [0x4000_0003, 0x4000_0028, 0xc000_003e, 0xc000_00b7] {
        if architecture != ARCHITECTURE {
            assert_eq!(verdict_on(architecture, libc::SYS_read, &[]), ENOSYS, "{architecture:#x}");
        }
    }
}
