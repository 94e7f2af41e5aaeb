import { readFileSync } from 'node:fs'
import { countOf } from '../count.ts'
import { brokerClient, execOnce, type Grant, httpClient } from '../http.ts'
import { many } from '../many.ts'
import { type Stack, startStack } from '../stack.ts'
import { median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const SANDBOXES = 10_000
/** Sandboxes whose creation is timed, at the beginning and at the end. */
const BLOCK = 100
const AT_ONCE = 4
const EXEC = '{"argv":["/bin/true"]}'

/** The row has a stack of its own, whose agent it restarts. */
export const needs: Needs = {}

/** As many live local sandboxes as this machine holds: what one costs, and whether the next one costs more. */
export const run = async ({ scratch }: RowContext): Promise<Row[]> => {
  const wanted = countOf('BENCH_DENSITY', SANDBOXES)
  const stack = await startStack({ name: 'density', provider: 'local', scratch, profiles: [] })
  try {
    return await measure(stack, wanted)
  } finally {
    await stack.stop()
  }
}

const measure = async (stack: Stack, wanted: number): Promise<Row[]> => {
  const block = Math.min(BLOCK, Math.ceil(wanted / 2))
  const broker = brokerClient(stack.address.brokerUrl, stack.address.apiKey)
  const client = httpClient()
  const grants: Grant[] = []
  const create = async (): Promise<void> => {
    grants.push(await broker.ensure(`bench-density-${grants.length}-${performance.now()}`))
  }
  const inRandom = async (): Promise<number> => {
    const pick = () => grants[Math.floor(Math.random() * grants.length)] as Grant
    return median(await timeEach(block, () => execOnce(client, pick(), EXEC)))
  }

  // Broker and agent have been compiled by then, as those of a service are.
  await timeEach(Math.min(50, block), create)
  for (const grant of grants.splice(0)) await broker.release(grant.session_id)
  const free = availableMiB()
  const first = median(await timeEach(block, create))
  await inRandom()
  const execFirst = await inRandom()
  const end = await grow(create, wanted - grants.length - block, () => grants.length)
  const last = end === undefined ? median(await timeEach(wanted - grants.length, create)) : undefined
  const count = grants.length
  const memory = (free - availableMiB()) / count
  const execLast = await inRandom()

  const name = `density: ${count} live local sandboxes`
  const where = end === undefined ? '' : `; the machine ended at ${count} of ${wanted}: ${end}`
  const rows: Row[] = [
    ...(last === undefined ? [] : [ratioRow(`${name}, creation, p50`, last, first, `in the first ${block}`)]),
    ratioRow(`${name}, \`POST /exec\` in a random one, p50`, execLast, execFirst, `with ${block} live${where}`),
    {
      row: `${name}, memory of each, all told`,
      measured: `${round(memory)} MiB`,
      comparison: `MemAvailable before and after${where}`,
      must: '≤ 0.8 MiB',
      stretch: '',
      passed: memory <= 0.8,
      figures: { mib_each: memory, count, wanted },
    },
  ]
  rows.push(await restart(name, stack, (grant) => execOnce(client, grant, EXEC), grants))
  broker.close()
  client.close()
  return rows
}

/** Makes sandboxes until there are enough of them, or until one is refused; why it was. */
const grow = async (create: () => Promise<void>, count: number, live: () => number): Promise<string | undefined> => {
  let end: string | undefined
  await many(Math.max(0, count), AT_ONCE, async () => {
    if (end !== undefined) return
    try {
      await create()
      if (live() % 1000 === 0) process.stderr.write(`density: ${live()} live\n`)
    } catch (error) {
      end ??= (error as Error).message
    }
  })
  return end
}

/** The agent is killed and started again; afterwards every sandbox runs a command, so none was lost. */
const restart = async (name: string, stack: Stack, exec: (grant: Grant) => Promise<void>, grants: readonly Grant[]): Promise<Row> => {
  const start = performance.now()
  await stack.restartAgent()
  const ready = (performance.now() - start) / 1000
  await many(grants.length, AT_ONCE, (i) => exec(grants[i] as Grant))
  const all = (performance.now() - start) / 1000
  return {
    row: `${name}, agent killed and started again, all adopted`,
    measured: `${round(ready, 1)} s`,
    comparison: `each of them has run a command after ${round(all, 1)} s`,
    must: '≤ 30 s',
    stretch: '',
    passed: ready <= 30,
    figures: { ready_seconds: ready, all_seconds: all },
  }
}

const ratioRow = (row: string, ours: number, theirs: number, comparison: string): Row => ({
  row,
  measured: `${round(ours)} ms = ${round(ours / theirs)} ×`,
  comparison: `${round(theirs)} ms ${comparison}`,
  must: '≤ 1.3 ×',
  stretch: '1.0 ×',
  passed: ours / theirs <= 1.3,
  figures: { ours, theirs, ratio: ours / theirs },
})

const availableMiB = (): number => Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) / 1024
