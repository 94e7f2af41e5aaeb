import { connect } from '@boxoffice/client'
import { brokerApi } from '../../e2e/support/api.ts'
import { clientInside, clientOutside, figure, furnish } from '../network/run-client.ts'
import { BULK } from '../profiles.ts'
import { inTurn, median } from '../statistics.ts'
import { crowd } from './egress.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const PORT = 8080
const MAY_ADD_MS = 1
const KEEP_ALIVE = { kind: 'requests', count: 3000, warmUp: 1500, atOnce: 1 } as const
const PARALLEL = { kind: 'requests', count: 10_000, warmUp: 4000, atOnce: 200 } as const

export const needs: Needs = { local: [BULK] }

/** A preview of a port, for a program that shows a token, against the same client beside the application in the sandbox. */
export async function* run({ local: { brokerUrl, apiKey } }: RowContext): AsyncGenerator<Row> {
  await using parts = new AsyncDisposableStack()
  const client = connect(brokerUrl, { apiKey })
  parts.defer(async () => client.close())
  const capabilities = ['ports', 'exec', 'fs_write'] as const
  const session = await client.session('bench-previews', { profile: BULK.name, capabilities })
  const { token } = await brokerApi(brokerUrl, apiKey).ensure('bench-previews', { requested_capabilities: capabilities })
  await furnish(session)
  const application = await session.exec.start(['./node', 'network/origin.ts', JSON.stringify({ host: '127.0.0.1', http: PORT })])
  for await (const line of application.stdout.lines()) if (line === 'ready') break
  const { host, port } = new URL((await session.ports.expose(PORT)).url)
  // Names below localhost are for browsers: others connect to the listener, and say the name.
  const headers = { host, 'x-boxoffice-preview-token': token }
  const preview = { url: `http://127.0.0.1:${port}/`, headers }
  const direct = { url: `http://127.0.0.1:${PORT}/` }
  const outside = clientOutside()
  const inside = clientInside(session)

  const own = () => figure(inside, { ...KEEP_ALIVE, ...direct }, 'p50')
  const added: number[] = []
  const result = await inTurn(async () => {
    const through = await figure(outside, { ...KEEP_ALIVE, ...preview }, 'p50')
    added.push(through - (await own()))
    return through
  }, own)
  const adds = median(added)
  yield {
    row: 'a request through a preview, keep-alive, p50',
    measured: `${round(result.ours)} ms, adds ${round(adds)} ms`,
    comparison: `the application on its loopback ${round(result.theirs)} ms`,
    must: `adds ≤ ${MAY_ADD_MS} ms`,
    stretch: '',
    passed: adds <= MAY_ADD_MS,
    figures: { ...result, adds },
  }
  yield await crowd(
    '200 requests at once through a preview',
    () => outside({ ...PARALLEL, ...preview }),
    () => inside({ ...PARALLEL, ...direct }),
  )
  const bulk = { kind: 'download', bytes: 1024 ** 3 } as const
  const rates = await inTurn(
    () => figure(outside, { ...bulk, to: { host: '127.0.0.1', port: Number(port) }, headers }, 'rate'),
    () => figure(inside, { ...bulk, to: { host: '127.0.0.1', port: PORT } }, 'rate'),
  )
  yield {
    row: '1 GiB download through a preview',
    measured: `${round(rates.ours, 0)} MiB/s = ${round(rates.ratio)} ×`,
    comparison: `the application on its loopback ${round(rates.theirs, 0)} MiB/s`,
    must: '',
    stretch: '',
    passed: undefined,
    figures: { ...rates },
  }
  await session.release()
}
