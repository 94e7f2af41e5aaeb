import { ATTACKS } from '../../neighbours/attackers.ts'
import { brokerClient, execOnce, type Grant, httpClient } from '../http.ts'
import { INSPECTABLE, openInspector } from '../inspector.ts'
import { startStack } from '../stack.ts'
import { p99, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const BODY = '{"argv":["/bin/true"]}'
const COUNT = Number(process.env.BENCH_NEIGHBOURS ?? 2000)
const MAY_SLOW = 10
const MAY_KEEP_MIB = 64
/** What an attacker has left is removed and closed within this time. */
const SETTLE_MS = 12_000

export const needs: Needs = {}

/** The tail of a tenant's execs beside each attacker, against their tail without one; and what the agent keeps of all of them. */
export async function* run({ scratch }: RowContext): AsyncGenerator<Row> {
  await using parts = new AsyncDisposableStack()
  const stack = await startStack({ name: 'neighbours', provider: 'local', scratch, profiles: [], agentEnv: INSPECTABLE })
  parts.defer(() => stack.stop())
  const { brokerUrl, apiKey } = stack.address
  const broker = brokerClient(brokerUrl, apiKey)
  parts.defer(async () => broker.close())
  const client = httpClient()
  parts.defer(async () => client.close())
  const tenant = await broker.ensure('tenant')
  const tail = async (grant: Grant): Promise<number> => p99(await timeEach(COUNT, () => execOnce(client, grant, BODY)))
  await tail(tenant)
  using inspector = await openInspector(stack.agent)
  const before = (await inspector.memory()).residentKiB
  for (const { name, begin } of ATTACKS) {
    const quiet = await tail(tenant)
    const grant = await broker.ensure(`attacker-${name.replaceAll(' ', '-')}`)
    let beside: number
    {
      await using _attack = await begin({ brokerUrl, grant })
      beside = await tail(tenant)
    }
    await broker.release(grant.session_id)
    const ratio = beside / quiet
    yield {
      row: `POST /exec /bin/true beside an attacker: ${name}, p99`,
      measured: `${round(beside, 1)} ms = ${round(ratio, 1)} ×`,
      comparison: `quiet ${round(quiet, 1)} ms`,
      must: `≤ ${MAY_SLOW} ×`,
      stretch: '',
      passed: ratio <= MAY_SLOW,
      figures: { beside, quiet, ratio },
    }
  }
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS))
  const grown = ((await inspector.memory()).residentKiB - before) / 1024
  yield {
    row: 'agent memory after all attackers, garbage collected',
    measured: `grows ${round(grown, 1)} MiB`,
    comparison: `before ${round(before / 1024, 0)} MiB`,
    must: `≤ ${MAY_KEEP_MIB} MiB`,
    stretch: '',
    passed: grown <= MAY_KEEP_MIB,
    figures: { grown_mib: grown, before_mib: before / 1024 },
  }
}
