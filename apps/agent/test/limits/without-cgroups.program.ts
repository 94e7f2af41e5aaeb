import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { abilitiesOf } from '../../src/sandbox/provider.ts'
import type { LiveSandbox } from '../../src/sandboxes/live/live-sandbox.ts'
import { run, start } from '../host/support/exec.ts'
import { Host } from '../host/support/host.ts'
import { openLocal } from '../mounts/support.ts'

/*
 * Prints what an agent says that it holds, and what it does hold, as one line of JSON: `without-cgroups.program.ts ISOLATION LIMIT`.
 * A program of its own, because a test cannot close the control groups to itself.
 */

/** Forks until it is refused, and tells how often it was not; not for ever, for the sake of a host on which nothing refuses. */
const BOMB = `perl -e '$| = 1; while ($n < 200 && defined($p = fork)) { if (!$p) { sleep 1000; exit } $n++ } print "$n $!\\n"; sleep 1000'`
/** Takes 200 MB, and tells when it has. */
const HOG = `perl -e '$x = "a" x 200_000_000; print length $x'`

const bomb = async ({ link }: LiveSandbox) => {
  const process = await start(link, BOMB)
  await process.outputMatches(/\n/)
  return {
    process,
    async end(): Promise<string> {
      await link.call('kill', { id: process.id, cause: 'stopped', grace_ms: 0 })
      return (await process.ended).stdout
    },
  }
}

const reasonOf = (sandbox: LiveSandbox): Promise<string> =>
  run(sandbox, 'true').then(
    ({ reason }) => reason,
    () => 'refused',
  )

const [isolation, limit] = process.argv.slice(2) as ['bubblewrap' | 'none', string]
await using host = await Host.start(openLocal(isolation))
const { limits, not_enforced } = abilitiesOf(host.provider.capabilities)
const attacker = await host.ensure('attacker', { pids_limit: Number(limit), memory_mb: 64 })
const neighbour = await host.ensure('neighbour', { pids_limit: Number(limit) })
const hogged = await run(attacker, HOG)
const { stdout: oomScore } = await run(attacker, 'cat /proc/self/oom_score_adj')
const oomScores = [Number(oomScore), Number(readFileSync('/proc/self/oom_score_adj', 'utf8'))]
const found: Record<string, unknown> = { limits, not_enforced, hogged: hogged.stdout, oomScores }
if (limits.includes('pids_limit')) {
  // More than the limit, of the user as whom the sandboxes run where the agent is not root.
  const crowd = Array.from({ length: Number(limit) + 10 }, () => spawn('sleep', ['1000']))
  const first = await bomb(attacker)
  found.meanwhile = { attacker: await reasonOf(attacker), neighbour: await reasonOf(neighbour) }
  found.bombed = await first.end()
  found.afterwards = await reasonOf(attacker)
  await host.manager.suspend(attacker.id, 'stop')
  await attacker.ready(AbortSignal.timeout(60_000))
  found.bombedAgain = await (await bomb(attacker)).end()
  for (const child of crowd) child.kill('SIGKILL')
}
process.stdout.write(`${JSON.stringify(found)}\n`)
