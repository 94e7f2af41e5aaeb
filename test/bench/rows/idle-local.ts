import { withCrowd } from '../crowd.ts'
import { brokerClient, execOnce, type Grant, type httpClient } from '../http.ts'
import { many } from '../many.ts'
import { cpuMs, localProcesses, pssKiB } from '../process-memory.ts'
import type { Stack } from '../stack.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round, type StackAddress } from './row.ts'

const SANDBOXES = 500
const AT_ONCE = 16
const EXEC = '{"argv":["/bin/true"]}'
const IDLE_MS = 10_000

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/** What the sandboxes themselves have in memory: bubblewrap, the supervisor, and a part of what serves all of them. */
const sandboxMemory = ({ dataDir, agentPid }: Stack['address']): Row => {
  const { sandboxes, shared } = localProcesses(dataDir, agentPid)
  const sizes = [...sandboxes.values()].map((pids) => sum(pids.map(pssKiB)) / 1024)
  const each = (sum(sizes) + sum(shared.map(pssKiB)) / 1024) / sandboxes.size
  const processes = sum([...sandboxes.values()].map((pids) => pids.length))
  if (sandboxes.size < SANDBOXES || processes < 2 * sandboxes.size) throw new Error(`${sandboxes.size} sandboxes, ${processes} processes`)
  return {
    row: `memory of each of ${SANDBOXES} idle local sandboxes, bwrap and supervisor (PSS)`,
    measured: `${round(each)} MiB`,
    comparison: `the largest ${round(Math.max(...sizes))} MiB`,
    must: '≤ 3 MiB',
    stretch: '',
    passed: each <= 3,
    figures: { mib_each: each, largest_mib: Math.max(...sizes), processes, shared_processes: shared.length },
  }
}

/** What broker and agent do while nobody asks for anything. */
const idleProcessor = async ({ agentPid, brokerPid }: Stack['address']): Promise<Row> => {
  const before = [cpuMs(agentPid), cpuMs(brokerPid)]
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
  const percent = (pid: number, since: number | undefined): number => ((cpuMs(pid) - (since ?? 0)) / IDLE_MS) * 100
  const [agent, broker] = [percent(agentPid, before[0]), percent(brokerPid, before[1])]
  return {
    row: `processor time of an agent with ${SANDBOXES} idle local sandboxes`,
    measured: `${round(agent, 1)} % of a core`,
    comparison: `the broker ${round(broker, 1)} %`,
    must: '≤ 5 %',
    stretch: '',
    passed: agent <= 5,
    figures: { agent_percent: agent, broker_percent: broker },
  }
}

const restart = async (stack: Stack, client: ReturnType<typeof httpClient>, grants: readonly Grant[]): Promise<Row> => {
  const start = performance.now()
  await stack.restartAgent()
  const ready = (performance.now() - start) / 1000
  await many(grants.length, AT_ONCE, (i) => execOnce(client, grants[i] as Grant, EXEC))
  const all = (performance.now() - start) / 1000
  return {
    row: `agent killed and started again: until all of ${SANDBOXES} local sandboxes have run a command`,
    measured: `${round(all, 1)} s`,
    comparison: `ready after ${round(ready, 1)} s`,
    must: '≤ 15 s',
    stretch: '',
    passed: all <= 15,
    figures: { all_seconds: all, ready_seconds: ready },
  }
}

/**
 * In turn with an agent that has no other sandbox: what else the machine does weighs on both. Agents take the same time for both; in
 * a sandbox that has long done nothing, the processor's and the kernel's caches are cold.
 */
const exec = async (client: ReturnType<typeof httpClient>, grants: readonly Grant[], local: StackAddress): Promise<Row> => {
  const broker = brokerClient(local.brokerUrl, local.apiKey)
  const alone = await broker.ensure('bench-alone')
  const block = (pick: () => Grant) => async () => median(await timeEach(50, () => execOnce(client, pick(), EXEC)))
  const among = block(() => grants[Math.floor(Math.random() * grants.length)] as Grant)
  await block(() => alone)()
  await among()
  const { ours, theirs, ratio } = await inTurn(
    among,
    block(() => alone),
  )
  await broker.release(alone.session_id)
  broker.close()
  return {
    row: `\`POST /exec\` in a random one of ${SANDBOXES} local sandboxes, p50`,
    measured: `${round(ours)} ms = ${round(ratio)} ×`,
    comparison: `in the only one of another agent ${round(theirs)} ms`,
    must: '≤ 2 ×',
    stretch: '',
    passed: ratio <= 2,
    figures: { ours, theirs, ratio },
  }
}

export const needs: Needs = { local: [] }

/** Five hundred local sandboxes that have nothing to do: what they hold, what they cost, and that nothing else gets slower by them. */
export const run = (context: RowContext): Promise<Row[]> =>
  withCrowd(context, {
    provider: 'local',
    count: SANDBOXES,
    atOnce: AT_ONCE,
    async during({ client, stack }, grants) {
      const memory = sandboxMemory(stack.address)
      const processor = await idleProcessor(stack.address)
      return [memory, processor, await exec(client, grants, context.local), await restart(stack, client, grants)]
    },
  })
