import { readdirSync, readFileSync } from 'node:fs'
import { eventually } from '../../e2e/support/traces.ts'
import { countOf } from '../count.ts'
import { brokerClient, execOnce, type Grant, httpClient } from '../http.ts'
import { many } from '../many.ts'
import { LASTING } from '../profiles.ts'
import { type Stack, startStack } from '../stack.ts'
import { median } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const SANDBOXES = 10_000
/** Sandboxes whose creation is timed, at the beginning and at the end; so many live when the first of them is made. */
const BLOCK = 100
const AT_ONCE = 4
const PACE_EVERY = 500
const EXEC = '{"argv":["/bin/true"]}'
/** After so long without a request the agent holds no more of a sandbox than it must. */
const IDLE_MS = 7000
/** A hang guard. */
const ADOPTED_WITHIN_MS = 900_000
/** A token is renewed as the client does it, before it ends. */
const RENEW_BEFORE_MS = 60_000

/** The row has a stack of its own, whose agent it restarts. */
export const needs: Needs = {}

/** As many live local sandboxes as this machine holds: what one costs, and whether the next one costs more. */
export const run = async ({ scratch }: RowContext): Promise<Row[]> => {
  const wanted = countOf('BENCH_DENSITY', SANDBOXES)
  const stack = await startStack({ name: 'density', provider: 'local', scratch, profiles: [LASTING] })
  try {
    return await measure(stack, wanted)
  } finally {
    await stack.stop()
  }
}

const measure = async (stack: Stack, wanted: number): Promise<Row[]> => {
  const block = Math.max(1, Math.min(BLOCK, Math.floor(wanted / 3)))
  const crowd = openCrowd(stack)
  // Broker and agent have been compiled by then, as those of a service are.
  await crowd.grow(Math.min(50, wanted))
  await crowd.execEach(block)
  await crowd.releaseAll()
  await crowd.rest()
  const before = { free: availableMiB(), descriptors: descriptorsOf(stack) }

  await crowd.grow(block)
  await crowd.rest()
  const execFirst = await crowd.execEach(block)
  const first = await crowd.grow(block)
  const later = await crowd.grow(wanted - 2 * block)
  await crowd.rest()
  const count = crowd.size
  const memory = (before.free - availableMiB()) / count
  const descriptors = (descriptorsOf(stack) - before.descriptors) / count
  const execLast = await crowd.execEach(block)

  const name = `density: ${count} live local sandboxes`
  const end = crowd.refusal === undefined ? '' : `; the machine ended at ${count} of ${wanted}: ${crowd.refusal}`
  const rows = [
    {
      ...ratioRow(`${name}, creation, ${AT_ONCE} at once, p50`, median(later.slice(-block)), median(first)),
      comparison: `${round(median(first))} ms with ${block} live${end}`,
    },
    {
      ...ratioRow(`${name}, first \`POST /exec\` in a random idle one, p50`, median(execLast), median(execFirst)),
      comparison: `${round(median(execFirst))} ms with ${block} live`,
    },
    {
      row: `${name}, memory of each, all told`,
      measured: `${round(memory)} MiB`,
      comparison: 'MemAvailable before and after',
      must: '≤ 0.8 MiB',
      stretch: '',
      passed: memory <= 0.8,
      figures: { mib_each: memory, count, wanted },
    },
    {
      row: `${name}, descriptors of the agent for each`,
      measured: String(round(descriptors)),
      comparison: 'all that it has open, before and after',
      must: '≤ 1',
      stretch: '',
      // Connections of clients come and go.
      passed: descriptors * count <= count + 64,
      figures: { descriptors_each: descriptors },
    },
  ]
  rows.push(await restart(name, stack, crowd))
  crowd.close()
  return rows
}

/** Live sandboxes, in the order in which they were made. */
const openCrowd = (stack: Stack) => {
  const broker = brokerClient(stack.address.brokerUrl, stack.address.apiKey)
  const client = httpClient()
  const grants: Grant[] = []
  let made = 0
  let refusal: string | undefined
  const fresh = async (at: number): Promise<Grant> => {
    const grant = grants[at] as Grant
    if (Date.parse(grant.expires_at) - Date.now() > RENEW_BEFORE_MS) return grant
    const renewed = { ...grant, ...(await broker.refresh(grant.session_id)) }
    grants[at] = renewed
    return renewed
  }
  const exec = async (at: number): Promise<number> => {
    const grant = await fresh(at)
    const start = performance.now()
    await execOnce(client, grant, EXEC)
    return performance.now() - start
  }
  return {
    get size() {
      return grants.length
    },
    /** Why no more could be made. */
    get refusal() {
      return refusal
    },
    /** Makes that many, or as many as the machine has room for; how long each took, in ms. */
    async grow(count: number): Promise<number[]> {
      const times: number[] = []
      await many(Math.max(0, count), AT_ONCE, async () => {
        if (refusal !== undefined) return
        const start = performance.now()
        try {
          grants.push(await broker.ensure(`bench-density-${made++}`, LASTING.name))
        } catch (error) {
          refusal ??= (error as Error).message
          return
        }
        times.push(performance.now() - start)
        if (grants.length % PACE_EVERY === 0) tell(`${grants.length} live, creation p50 ${round(median(times.slice(-PACE_EVERY)))} ms`)
      })
      if (refusal !== undefined && grants.length === 0) throw new Error(`no sandbox could be made: ${refusal}`)
      return times
    },
    /** One command in each of so many, picked at random; how long each took, in ms. */
    async execEach(count: number): Promise<number[]> {
      const left = grants.map((_, at) => at)
      const picked = Array.from({ length: Math.min(count, left.length) }, () =>
        left.splice(Math.floor(Math.random() * left.length), 1),
      ).flat()
      const times: number[] = []
      for (const at of picked) times.push(await exec(at))
      return times
    },
    execAll: () => many(grants.length, AT_ONCE, exec),
    rest: () => new Promise((resolve) => setTimeout(resolve, IDLE_MS)),
    async releaseAll(): Promise<void> {
      for (const grant of grants.splice(0)) await broker.release(grant.session_id)
    },
    close() {
      broker.close()
      client.close()
    },
  }
}

/** The agent is killed and started again; afterwards every sandbox runs a command, so none was lost. */
const restart = async (name: string, stack: Stack, crowd: ReturnType<typeof openCrowd>): Promise<Row> => {
  const start = performance.now()
  const seconds = () => (performance.now() - start) / 1000
  await stack.restartAgent()
  const listening = seconds()
  await eventually('all are adopted', async () => (await fetch(`${stack.address.agentUrl}/readyz`)).ok, ADOPTED_WITHIN_MS)
  const ready = seconds()
  tell(`agent restarted, listens after ${round(listening, 1)} s, ready after ${round(ready, 1)} s`)
  await crowd.execAll()
  const all = seconds()
  return {
    row: `${name}, agent killed and started again, all adopted`,
    measured: `${round(ready, 1)} s`,
    comparison: `it listens after ${round(listening, 1)} s; each of them has run a command after ${round(all, 1)} s`,
    must: '≤ 30 s',
    stretch: '',
    passed: ready <= 30,
    figures: { listening_seconds: listening, ready_seconds: ready, all_seconds: all },
  }
}

const ratioRow = (row: string, ours: number, theirs: number): Omit<Row, 'comparison'> => ({
  row,
  measured: `${round(ours)} ms = ${round(ours / theirs)} ×`,
  must: '≤ 1.3 ×',
  stretch: '1.0 ×',
  passed: ours / theirs <= 1.3,
  figures: { ours, theirs, ratio: ours / theirs },
})

const tell = (line: string): void => void process.stderr.write(`density: ${line}\n`)

const availableMiB = (): number => Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) / 1024

const descriptorsOf = (stack: Stack): number => readdirSync(`/proc/${stack.address.agentPid}/fd`).length
