import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { countsApart } from '../../src/providers/local/rlimits.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '../../../..')
const PROGRAM = 'apps/agent/test/limits/without-cgroups.program.ts'
const LIMIT = 24

/** A root that may not write to control groups, as in most containers. */
const CLOSED = 'mount -t tmpfs -o ro none /sys/fs/cgroup && cd "$1" && shift && exec "$@"'
/** Nobody in particular, to whom directories above the checkout may be closed. */
const NOBODY = 'mount --bind "$1" /mnt && cd /mnt && shift && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"'
const entering = (script: string) => ['unshare', '--mount', 'sh', '-c', script, 'sh', ROOT]

/** Agents to which control groups are closed, and what stands before the command line of each. */
const AGENTS: [who: string, enter: string[]][] =
  process.getuid?.() === 0
    ? [
        ['root', entering(CLOSED)],
        ['a user', entering(NOBODY)],
      ]
    : [['a user', 'bwrap --dev-bind / / --tmpfs /sys/fs/cgroup --remount-ro /sys/fs/cgroup --'.split(' ')]]

const measure = async (isolation: 'bubblewrap' | 'none', enter: string[]) => {
  // Both from the checkout, wherever it is seen then.
  const node = process.execPath.replace(`${ROOT}/`, './')
  const [file = '', ...args] = [...enter, node, '--disable-warning=ExperimentalWarning', PROGRAM, isolation, String(LIMIT)]
  const { stdout } = await run(file, args, { cwd: ROOT, env: { PATH: process.env.PATH }, timeout: 170_000 })
  return JSON.parse(stdout) as Record<string, unknown>
}

describe('[2-03] control groups are closed to the agent', { timeout: 180_000 }, () => {
  test.each(AGENTS)(
    'of %s: the number of processes is held for each sandbox by itself; of memory and CPU it is said that they are not',
    async (_, enter) => {
      const { limits, not_enforced, hogged, oomScores, bombed, bombedAgain, ...rest } = await measure('bubblewrap', enter)
      expect(limits).toEqual(['pids_limit', 'read_only_rootfs', 'tmp_size'])
      expect(not_enforced).toEqual(['cpus', 'memory_mb', 'workspace_disk'])
      expect(hogged).toBe('200000000') // of a sandbox with 64 MiB, as was said
      // So that the kernel ends what runs there before the agent.
      const [sandboxes, agents] = oomScores as number[]
      expect(sandboxes).toBeGreaterThan(agents ?? Number.NaN)
      expect(rest).toEqual({ meanwhile: { attacker: expect.not.stringMatching('exited'), neighbour: 'exited' }, afterwards: 'exited' })
      for (const said of [bombed, bombedAgain]) {
        const [, forks, why] = /^(\d+) (.*)\n$/.exec(String(said)) ?? []
        expect(why).toBe('Resource temporarily unavailable')
        // With the supervisor and what forks: the limit.
        expect(Number(forks)).toBeLessThanOrEqual(LIMIT - 2)
        expect(Number(forks)).toBeGreaterThan(LIMIT / 2)
      }
    },
  )

  test('without isolation nothing is held, which is said', async () => {
    const { limits, not_enforced, hogged } = await measure('none', AGENTS.at(-1)?.[1] ?? [])
    expect(limits).toEqual([])
    expect(not_enforced).toEqual(['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs', 'tmp_size', 'workspace_disk'])
    expect(hogged).toBe('200000000')
  })
})

test.each([
  ['6.18.44-fc', true],
  ['6.1.0', true],
  ['5.14.0-570.el9', true],
  ['5.13.19', false],
  ['4.18.0-553.el8', false],
])('[2-03] Linux %s counts by user namespace: %s', (release, expected) => {
  expect(countsApart(release)).toBe(expected)
})
