import { brokerClient, execOnce, type Grant, httpClient } from './http.ts'
import { INSPECTABLE, type Memory, openInspector } from './inspector.ts'
import { leftBy } from './left.ts'
import { many } from './many.ts'
import { type Row, type RowContext, round } from './rows/row.ts'
import { type Stack, startStack } from './stack.ts'

/** Of each sandbox, once it idles. */
const MUST_KIB = 256

type Crowd = { stack: Stack; client: ReturnType<typeof httpClient> }

type Options = {
  provider: 'docker' | 'local'
  count: number
  atOnce: number
  /** With all of them there. */
  during?: (crowd: Crowd, grants: readonly Grant[]) => Promise<Row[]>
}

/**
 * Many idle sandboxes of a stack of their own, each of which has run one command: what the agent itself holds for each, whatever
 * else is to be measured while they are there, and that nothing of them is left at the end.
 */
export const withCrowd = async ({ scratch }: RowContext, { provider, count, atOnce, during }: Options): Promise<Row[]> => {
  const stack = await startStack({ name: `idle-${provider}`, provider, scratch, profiles: [], agentEnv: INSPECTABLE })
  const rows: Row[] = []
  try {
    const broker = brokerClient(stack.address.brokerUrl, stack.address.apiKey)
    const client = httpClient()
    const start = async (thread: string): Promise<Grant> => {
      const grant = await broker.ensure(thread)
      await execOnce(client, grant, '{"argv":["/bin/true"]}')
      return grant
    }
    // What comes once, for the first ones, is not of each.
    const first = await many(2 * atOnce, atOnce, (i) => start(`bench-first-${i}`))
    for (const grant of first) await broker.release(grant.session_id)
    const grow = async (): Promise<Grant[]> => {
      using inspector = await openInspector(stack.agent)
      const alone = await inspector.memory()
      const grants = await many(count, atOnce, (i) => start(`bench-idle-${i}`))
      rows.push(growthRow(`${count} idle ${provider} sandboxes`, count, alone, await inspector.memory()))
      return grants
    }
    const grants = await grow()
    if (during !== undefined) rows.push(...(await during({ stack, client }, grants)))
    broker.close()
    client.close()
  } finally {
    await stack.stop()
  }
  const left = await leftBy(stack.address.dataDir, provider)
  if (left.length > 0) throw new Error(`left after the end: ${left.slice(0, 10).join('; ')}`)
  return rows
}

/** The larger of two figures: what is new in the process can be in pages that it had already, and what is not in the heap is new, too. */
const growthRow = (of: string, count: number, before: Memory, after: Memory): Row => {
  const each = (field: keyof Memory): number => (after[field] - before[field]) / count
  const [pss, heap] = [each('pssKiB'), each('heapKiB')]
  const grown = Math.max(pss, heap)
  return {
    row: `agent's memory for each of ${of} (PSS or heap, after a collection)`,
    measured: `${round(grown, 0)} KiB`,
    comparison: `before ${round(before.pssKiB / 1024, 0)} MiB`,
    must: `≤ ${MUST_KIB} KiB`,
    stretch: '',
    passed: grown <= MUST_KIB,
    figures: { pss_kib_each: pss, heap_kib_each: heap, resident_kib_each: each('residentKiB') },
  }
}
