import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LiveSandbox } from '../../src/sandboxes/live/live-sandbox.ts'
import { run } from '../host/support/exec.ts'
import { Host, type OpenProvider } from '../host/support/host.ts'

/** Numbers of system calls that Perl has no name for. */
const CALLS = {
  x64: {
    prlimit64: 302,
    setpriority: 141,
    sched_setscheduler: 144,
    sched_setparam: 142,
    sched_setattr: 314,
    sched_setaffinity: 203,
    ioprio_set: 251,
    rt_sigqueueinfo: 129,
    rt_tgsigqueueinfo: 297,
  },
  arm64: {
    prlimit64: 261,
    setpriority: 140,
    sched_setscheduler: 119,
    sched_setparam: 118,
    sched_setattr: 274,
    sched_setaffinity: 122,
    ioprio_set: 30,
    rt_sigqueueinfo: 138,
    rt_tgsigqueueinfo: 240,
  },
}[process.arch as 'x64' | 'arm64']

const perl = (program: string): string =>
  `perl <<'PERL' 2>&1\nuse Socket; $| = 1;\n${Object.entries(CALLS)
    .map(([name, number]) => `sub sys_${name} { return syscall(${number}, @_) }`)
    .join('\n')}\nsub attempt { my ($name, $result) = @_; printf("%s: %s\\n", $name, $result < 0 ? $! : "done") }\n${program}\nPERL`

/** Every limit that a process may be given, its own scheduling and a signal in the name of the engine, all aimed at PID 1. */
const AIMED_AT_PID_1 = perl(`
  my $zero = pack("QQ", 0, 0); my $old = "\\0" x 16; my $word = pack("i", 0); my $mask = pack("Q", 1);
  my $attributes = pack("IIQiIQQQ", 48, 5, 0, 19, 0, 0, 0, 0);
  attempt("limit $_", sys_prlimit64(1, $_, $zero, 0)) for 0..15;
  attempt("reading a limit", sys_prlimit64(1, 7, 0, $old));
  attempt("priority", sys_setpriority(0, 1, 19)); attempt("priority of the user", sys_setpriority(2, 0, 19));
  attempt("scheduler", sys_sched_setscheduler(1, 5, $word)); attempt("parameter", sys_sched_setparam(1, $word));
  attempt("attributes", sys_sched_setattr(1, $attributes, 0)); attempt("affinity", sys_sched_setaffinity(1, 8, $mask));
  attempt("disk priority", sys_ioprio_set(1, 1, 3 << 13)); attempt("disk priority of the user", sys_ioprio_set(3, $<, 3 << 13));
  my $forged = pack("iiixxxxiI", 15, 0, -1, 0, 0) . ("\\0" x 104);
  attempt("forged signal", sys_rt_sigqueueinfo(1, 15, $forged)); attempt("forged signal to a thread", sys_rt_tgsigqueueinfo(1, 1, 15, $forged));
  my $pidfd = syscall(434, 1, 0); attempt("forged signal by descriptor", syscall(424, $pidfd, 15, $forged, 0));
  pipe(my $read, my $write); fcntl($read, 10, 15); fcntl($read, 8, 1); fcntl($read, 4, 020000); syswrite($write, "x");
`)

const REFUSED = [
  ...Array.from({ length: 16 }, (_, resource) => `limit ${resource}`),
  'priority',
  'priority of the user',
  'scheduler',
  'parameter',
  'attributes',
  'affinity',
  'disk priority',
  'disk priority of the user',
  'forged signal',
  'forged signal to a thread',
  'forged signal by descriptor',
]

const SOCKETS = perl(`
  my @families;
  for my $family (1..48) { push @families, $family if socket(my $s, $family, SOCK_STREAM, 0) || $! != 97 }
  print join(" ", @families), "\\n";
  socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) and print "a pair\\n";
  socketpair($a, $b, 30, SOCK_STREAM, 0) or print "no pair of TIPC: ", $!+0, "\\n";
`)

/** What people run must go on: each of these changes itself, its own shell or opens a socket. */
const ORDINARY = `set -e
  nice -n 5 true; renice -n 19 -p $$ >/dev/null; taskset -p "$(taskset -p $$ | sed 's/.*: //')" $$ >/dev/null; ionice -c 3 true; ionice -c 3 -p $$; chrt -b 0 true
  ulimit -n 64; ulimit -c 0; ulimit -s 4096; sh -c true; prlimit --pid 1 --nofile >/dev/null; prlimit --nofile=32 true
  git init -q /tmp/repository; git -C /tmp/repository status >/dev/null
  if command -v python3 >/dev/null; then
    python3 -c 'import multiprocessing as m, os, resource, socket, ssl; socket.socketpair(); socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0)); q = m.Queue(); p = m.Process(target=q.put, args=(1,)); p.start(); assert q.get() == 1; p.join()'
  fi
  if command -v node >/dev/null; then
    node -e 'const os = require("os"); os.setPriority(19); require("net").createServer().listen(0, "127.0.0.1", function () { this.close() }); require("child_process").spawnSync("true")'
  fi
  echo all of it`

/** A process of the sandbox against the supervisor, which has the same user and is PID 1 there. */
export const initSuite = (open: OpenProvider): void => {
  let host: Host
  let sandbox: LiveSandbox
  beforeAll(async () => {
    host = await Host.start(open)
    sandbox = await host.ensure('init')
  })
  afterAll(() => host.close())

  test('no limit, no scheduling and no forged signal reaches PID 1', async () => {
    const scheduling = () => run(sandbox, 'cut -d" " -f 18,19,41 /proc/1/stat; cat /proc/1/limits')
    const before = (await scheduling()).stdout
    const { stdout } = await run(sandbox, AIMED_AT_PID_1)
    const told = new Map(stdout.split('\n').map((line) => line.split(': ') as [string, string]))
    expect(told.get('reading a limit')).toBe('done')
    for (const attempt of REFUSED) expect([attempt, told.get(attempt)]).toEqual([attempt, 'Operation not permitted'])
    expect((await scheduling()).stdout).toBe(before)
  })

  test('sockets are of families that each sandbox has for itself', async () => {
    expect((await run(sandbox, SOCKETS)).stdout).toMatch(/^1 2 (10 )?16\na pair\nno pair of TIPC: 97\n$/)
  })

  test('programs go on setting their own priority, processors, limits and sockets', async () => {
    expect(await run(sandbox, ORDINARY)).toMatchObject({ code: 0, stdout: 'all of it\n', stderr: '' })
  })
}
