import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { brokerClient, execOnce, type Grant, httpClient } from '../http.ts'
import { BULK } from '../profiles.ts'
import { type Stack, startStack } from '../stack.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { download, upload } from './files.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const FILES = 2000
const COLD = 8

/** What a trick is for, as a rate: more is better. */
type Work = { what: string; unit: string; rate(stack: Stack): Promise<number> }

const withSandbox = async <T>({ address }: Stack, use: (grant: Grant) => Promise<T>): Promise<T> => {
  const broker = brokerClient(address.brokerUrl, address.apiKey)
  try {
    return await use(await broker.ensure('bench-fast-io', 'bulk'))
  } finally {
    broker.close()
  }
}

const headersOf = ({ token }: Grant): Record<string, string> => ({ authorization: `Bearer ${token}` })

const UPLOAD: Work = {
  ...{ what: '1 GiB upload', unit: 'MiB/s' },
  rate: (stack) => withSandbox(stack, (grant) => upload(`${grant.sandbox.http_base_url}/files/upload?path=big`, 'POST', headersOf(grant))),
}

const DOWNLOAD: Work = {
  ...{ what: '1 GiB download', unit: 'MiB/s' },
  rate: (stack) => withSandbox(stack, (grant) => download(`${grant.sandbox.http_base_url}/files/download?path=big`, headersOf(grant))),
}

const ARCHIVE: Work = {
  ...{ what: `archive of ${FILES} small files`, unit: 'files/s' },
  rate: (stack) =>
    withSandbox(stack, async (grant) => {
      const start = performance.now()
      const response = await fetch(`${grant.sandbox.http_base_url}/files/download?path=small&archive=tar`, { headers: headersOf(grant) })
      await response.arrayBuffer()
      if (response.status !== 200) throw new Error(`archive: ${response.status}`)
      return FILES / ((performance.now() - start) / 1000)
    }),
}

let threads = 0
const ENSURE: Work = {
  ...{ what: 'ensure of a new thread', unit: 'per s' },
  rate: async ({ address }) => {
    const broker = brokerClient(address.brokerUrl, address.apiKey)
    const grants: Grant[] = []
    const times = await timeEach(COLD, async () => {
      grants.push(await broker.ensure(`bench-fast-io-${process.pid}-${threads++}`))
    })
    for (const grant of grants) await broker.release(grant.session_id)
    broker.close()
    return 1000 / median(times)
  },
}

/** Each trick with the work that it is for. `without`: off on both sides, since it would do the same work first. */
const TRICKS: readonly { trick: string; work: Work; without?: readonly string[] }[] = [
  { trick: 'splice', work: UPLOAD },
  { trick: 'gc_hint', work: UPLOAD, without: ['splice'] },
  { trick: 'buffer_pool', work: DOWNLOAD },
  { trick: 'shared_reads', work: DOWNLOAD },
  { trick: 'read_ahead', work: ARCHIVE },
  { trick: 'prefork', work: ENSURE },
  { trick: 'prewarm', work: ENSURE },
]

const fill = (stack: Stack): Promise<void> =>
  withSandbox(stack, async (grant) => {
    await UPLOAD.rate(stack)
    const make = `mkdir -p small && for i in $(seq ${FILES}); do echo $i > small/$i; done`
    const client = httpClient()
    await execOnce(client, grant, JSON.stringify({ command: make }))
    client.close()
  })

const measure = async (scratch: string, { trick, work, without = [] }: (typeof TRICKS)[number]): Promise<Row> => {
  const start = async (name: string, off: readonly string[]): Promise<Stack> => {
    const directory = join(scratch, trick)
    mkdirSync(directory, { recursive: true })
    const agentEnv = { BOXOFFICE_FAST_IO: JSON.stringify(Object.fromEntries(off.map((each) => [each, false]))) }
    return startStack({ name: `${name}-${trick}`, provider: 'local', scratch: directory, profiles: [BULK], agentEnv })
  }
  await using stacks = new AsyncDisposableStack()
  const fast = await start('fast', without)
  stacks.defer(() => fast.stop())
  const plain = await start('plain', [...without, trick])
  stacks.defer(() => plain.stop())
  for (const stack of [fast, plain]) {
    if (work !== ENSURE) await fill(stack)
    await work.rate(stack)
  }
  const result = await inTurn(
    () => work.rate(fast),
    () => work.rate(plain),
  )
  return {
    row: `fast_io.${trick}: ${work.what}${without.length === 0 ? '' : ` without ${without.join(', ')}`}`,
    measured: `${round(result.ours, 1)} ${work.unit} = ${round(result.ratio)} ×`,
    comparison: `the plain way ${round(result.theirs, 1)} ${work.unit}`,
    must: '≥ 1.3 ×',
    stretch: '',
    passed: result.ratio >= 1.3,
    figures: { ...result },
  }
}

/** It starts stacks by itself: two agents for each trick. */
export const needs: Needs = {}

/** Each trick on and off in turn, by the work that it is for. */
export const run = async ({ scratch }: RowContext): Promise<Row[]> => {
  const rows: Row[] = []
  for (const each of TRICKS) rows.push(await measure(scratch, each))
  return rows
}
