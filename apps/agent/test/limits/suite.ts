import { afterEach, beforeEach, expect, test } from 'vitest'
import { toExitFields } from '../../src/exec/exit.ts'
import type { LiveSandbox } from '../../src/sandboxes/live/live-sandbox.ts'
import type { SupervisorExit } from '../../src/supervisor/link.ts'
import { type Process, type Ran, run, start } from '../host/support/exec.ts'
import { Host, type OpenProvider } from '../host/support/host.ts'

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** A sandbox that minds its own business: files in memory, a process with something in it, and commands now and then. */
class Neighbour {
  readonly sandbox: LiveSandbox
  readonly #holder: Process

  private constructor(sandbox: LiveSandbox, holder: Process) {
    this.sandbox = sandbox
    this.#holder = holder
  }

  static async settle(host: Host): Promise<Neighbour> {
    const sandbox = await host.ensure('neighbour', { memory_mb: 128, pids_limit: 32 })
    await run(sandbox, 'head -c 8000000 /dev/urandom > /tmp/kept; sha256sum < /tmp/kept > sum; echo mine > file')
    const holder = await start(sandbox.link, `exec perl -e '$| = 1; $x = "kept" x 5_000_000; print "held\\n"; <STDIN>; print length $x'`, {
      stdin: 'open',
    })
    await holder.outputMatches(/held/)
    return new Neighbour(sandbox, holder)
  }

  /** Milliseconds that a command takes here, in the middle. */
  async execMs(): Promise<number> {
    const took: number[] = []
    for (let i = 0; i < 15; i++) {
      const began = performance.now()
      expect(await run(this.sandbox, 'true')).toMatchObject({ code: 0 })
      took.push(performance.now() - began)
    }
    return median(took)
  }

  /** What it had in memory and on its disk is as it was, and what ran runs. */
  async expectIntact(): Promise<void> {
    expect(await run(this.sandbox, 'sha256sum < /tmp/kept | diff - sum && cat file')).toMatchObject({ stdout: 'mine\n', code: 0 })
    expect(await Promise.race([this.#holder.ended, 'running'])).toBe('running')
  }
}

/** Far above what a command takes beside an attacker that is held to its limits, and far below what a host that thrashes takes. */
const BOUND_MS = 3000

/** Limits are held for real: one sandbox at its worst is not noticed by the next [2-03]. */
export const limitsSuite = (open: OpenProvider): void => {
  let host: Host
  let neighbour: Neighbour
  beforeEach(async () => {
    host = await Host.start(open)
    neighbour = await Neighbour.settle(host)
  })
  afterEach(() => host.close())

  test('[2-03] what is held is said, and what is not is said too', () => {
    expect(host.provider.capabilities.limits).toEqual(
      expect.arrayContaining(['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs', 'tmp_size']),
    )
    expect(host.provider.capabilities.limits).not.toContain('workspace_disk')
  })

  test('[2-03, 2-117] a fork bomb', { timeout: 90_000 }, async () => {
    const attacker = await host.ensure('attacker', { pids_limit: 48, cpus: 0.5 })
    const bomb = await start(attacker.link, 'bomb() { bomb | bomb & }; echo begins; bomb; sleep 1000', { timeout_ms: 30_000 })
    await bomb.outputMatches(/begins/)
    expect(await neighbour.execMs()).toBeLessThan(BOUND_MS)
    await neighbour.expectIntact()
    // The agent's own start of a command is refused by the same limit, and said to be; or it found room.
    const refused = await run(attacker, 'true').catch(() => undefined)
    expect(refused === undefined || ['exited', 'spawn_failed', 'signaled'].includes(refused.reason)).toBe(true)
    await host.manager.destroy(attacker.id, 'released')
    await neighbour.expectIntact()
  })

  test('[2-03, C-32] a memory hog is killed, and said to be: oom_killed, 137', { timeout: 90_000 }, async () => {
    const attacker = await host.ensure('attacker', { memory_mb: 96 })
    const hog = run(attacker, 'exec perl -e \'my @x; push @x, "a" x 10_000_000 while 1\'')
    expect(await neighbour.execMs()).toBeLessThan(BOUND_MS)
    const ran = await hog
    expect(exitOf(ran)).toMatchObject({ exit_code: 137, oom_killed: true, reason: 'oom_killed' })
    await neighbour.expectIntact()
    expect(await run(attacker, 'echo there')).toMatchObject({ stdout: 'there\n' })
  })

  test('[2-03] files in memory: /dev/shm ends at 64 MiB, and the rest of /dev takes none', { timeout: 90_000 }, async () => {
    const attacker = await host.ensure('attacker', { memory_mb: 128 })
    const filled = await run(
      attacker,
      'head -c 200000000 /dev/zero > /dev/shm/fill; touch /dev/file && echo written; du -sm /dev/shm | cut -f1',
    )
    expect(filled.stderr).toContain('No space left on device')
    expect(Number(filled.stdout)).toBe(64)
    await neighbour.expectIntact()
  })

  test('[2-03] a disk filler: /tmp ends at 64 MiB, the root takes nothing', { timeout: 90_000 }, async () => {
    const attacker = await host.ensure('attacker')
    const filled = await run(
      attacker,
      'head -c 200000000 /dev/zero > /tmp/fill; stat -c %s /tmp/fill; touch /fill /usr/fill /etc/fill /run/fill && echo written',
    )
    expect(filled.stderr).toContain('No space left on device')
    expect(Number(filled.stdout)).toBeLessThanOrEqual(64 * 2 ** 20)
    expect(filled.stdout).not.toContain('written')
    expect(await neighbour.execMs()).toBeLessThan(BOUND_MS)
    await neighbour.expectIntact()
  })

  test('[2-119] what fills the workspace is seen, though not held off', { timeout: 90_000 }, async () => {
    const attacker = await host.ensure('attacker', { workspace_quota_mb: 16 })
    await run(attacker, 'head -c 40000000 /dev/zero > fill')
    const { bytes } = await host.manager.workspaces.usage(attacker.id, 100_000)
    expect(bytes).toBeGreaterThan(attacker.profile.workspace_quota_mb * 2 ** 20)
    await neighbour.expectIntact()
  })

  test('[2-03] a processor hog has what its profile gives', { timeout: 90_000 }, async () => {
    const attacker = await host.ensure('attacker', { cpus: 0.25 })
    const { stdout } = await run(
      attacker,
      `perl -MTime::HiRes=time -e 'fork; my $end = time + 2; 1 while time < $end; printf "%.2f\\n", (times)[0] + (times)[1]; wait'`,
    )
    const used = stdout
      .trim()
      .split('\n')
      .map(Number)
      .reduce((sum, one) => sum + one, 0)
    // Two processes for two seconds: four without a limit.
    expect(used).toBeGreaterThan(0)
    expect(used).toBeLessThan(1.5)
  })

  test('[2-116] without network there is loopback alone, and the world is refused at once', async () => {
    const sandbox = await host.ensure('offline', { network: 'off' })
    expect((await run(sandbox, 'ls /sys/class/net 2>/dev/null || cut -d: -f1 /proc/net/dev | tail -n +3')).stdout.trim()).toBe('lo')
    const dial = await run(sandbox, 'timeout 20 bash -c "exec 3<>/dev/tcp/1.1.1.1/80"; echo $?')
    expect(dial.stdout).toBe('1\n')
    expect(dial.stderr).toMatch(/unreachable/i)
  })

  test('[2-04, 2-117] offline_readonly: no network, a root that cannot be written', async () => {
    const sandbox = await host.ensure('s', { network: 'off', read_only_rootfs: true, cpus: 0.5, memory_mb: 256, pids_limit: 64 })
    const ran = await run(sandbox, 'touch /x 2>&1; touch /tmp/x && echo tmp; touch x && echo workspace')
    expect(ran.stdout).toMatch(/Read-only file system\ntmp\nworkspace\n$/)
  })
}

const exitOf = ({ code, signal, reason, oom }: Ran) =>
  toExitFields({
    ...({ id: '', cause: null, spawn_error: null, duration_ms: 0, stdout_bytes: 0, stderr_bytes: 0 } as unknown as SupervisorExit),
    ...({ code, signal, reason, oom } as Pick<SupervisorExit, 'code' | 'signal' | 'reason' | 'oom'>),
  })
