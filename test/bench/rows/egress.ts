import { connect } from '@boxoffice/client'
import { makeCertificates, makeNetwork } from '../../e2e/support/network.ts'
import type { Figures } from '../network/client.ts'
import { clientInside, clientOutside, figure, furnish } from '../network/run-client.ts'
import { startPeer } from '../network/start-peer.ts'
import { BULK } from '../profiles.ts'
import { startStack } from '../stack.ts'
import { inTurn } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

/** No other suite that makes a network has this number. */
const SUITE = 7
const PORTS = { tunnel: 443, ruled: 8443, plain: 8080 }
const AUTHORIZATION = 'Bearer bench'
const GIB = 1024 ** 3
const KEEP_ALIVE = { kind: 'requests', count: 3000, warmUp: 1500, atOnce: 1 } as const
const PARALLEL = { kind: 'requests', count: 10_000, warmUp: 4000, atOnce: 200 } as const
const CONNECTIONS = { kind: 'connections', count: 1000, warmUp: 300 } as const

/** It makes its stack by itself, whose policy names an address that is made before. */
export const needs: Needs = {}

/** The way out of a local sandbox, against the same client outside, which has none to go through. Takes root, for a network of its own. */
export async function* run({ scratch }: RowContext): AsyncGenerator<Row> {
  await using parts = new AsyncDisposableStack()
  // Loopback is refused whatever the policy says, and so are addresses of this machine.
  const network = parts.use(makeNetwork(['origin'], SUITE))
  const { address: host = '', enter } = network.machines.origin ?? {}
  const { ca, cert, key } = makeCertificates(scratch, [host])
  const tls = { cert, key, ports: [PORTS.tunnel, PORTS.ruled] }
  const origin = await startPeer('origin.ts', [JSON.stringify({ host, http: PORTS.plain, tls, authorization: AUTHORIZATION })], enter)
  parts.defer(() => origin.stop())
  const pipe = await startPeer('pipe.ts', [host, String(PORTS.plain)])
  parts.defer(() => pipe.stop())
  const egress = {
    allow: [host, `${host}:${PORTS.plain}`],
    rules: [{ host: `${host}:${PORTS.ruled}`, inject: [{ header: 'authorization', secret: 'bench', template: 'Bearer {{secret}}' }] }],
    private_addresses: true,
  }
  const profiles = [{ ...BULK, network: 'proxy', egress }]
  const stack = await startStack({ name: 'egress', provider: 'local', scratch, profiles, agentEnv: { NODE_EXTRA_CA_CERTS: ca } })
  parts.defer(() => stack.stop())
  const client = connect(stack.address.brokerUrl, { apiKey: stack.address.apiKey })
  parts.defer(async () => client.close())
  await client.secrets.set('bench', 'bench')
  const session = await client.session('bench-egress', { profile: BULK.name })
  await furnish(session)
  const inside = clientInside(session)
  const outside = clientOutside(ca)

  yield await latency({
    row: 'a request through the tunnel, keep-alive, TLS to the end, p50',
    times: 1.3,
    ours: () => figure(inside, { ...KEEP_ALIVE, url: `https://${host}/` }, 'p50'),
    theirs: () => figure(outside, { ...KEEP_ALIVE, url: `https://${host}/` }, 'p50'),
    plusMs: 0.3,
  })
  const ruled = { ...KEEP_ALIVE, url: `https://${host}:${PORTS.ruled}/ruled` }
  yield await latency({
    row: 'the same with TLS opened and a header injected, p50',
    times: 2,
    ours: () => figure(inside, ruled, 'p50'),
    theirs: () => figure(outside, { ...ruled, headers: { authorization: AUTHORIZATION } }, 'p50'),
    plusMs: 0,
  })
  yield await latency({
    row: 'the same, compared with the tunnel that is not opened, p50',
    times: 2,
    ours: () => figure(inside, ruled, 'p50'),
    theirs: () => figure(inside, { ...KEEP_ALIVE, url: `https://${host}/` }, 'p50'),
    other: 'the tunnel',
    plusMs: 0,
  })
  const bulk = { kind: 'download', to: { host, port: PORTS.plain }, bytes: GIB } as const
  const through = () => figure(inside, bulk, 'rate')
  const piped = await inTurn(through, () => figure(outside, { ...bulk, to: { host: '127.0.0.1', port: Number(pipe.line) } }, 'rate'))
  const bare = await inTurn(through, () => figure(outside, bulk, 'rate'))
  yield {
    row: '1 GiB download through the tunnel',
    measured: `${round(piped.ours, 0)} MiB/s = ${round(piped.ratio)} ×`,
    comparison: `two sockets and \`pipe\` in Node ${round(piped.theirs, 0)} MiB/s; nothing between ${round(bare.theirs, 0)} MiB/s = ${round(bare.ratio)} ×`,
    must: '≥ 0.7 × of the pipe',
    stretch: '',
    passed: piped.ratio >= 0.7,
    figures: { ...piped, bare: bare.theirs, bare_ratio: bare.ratio },
  }
  const parallel = { ...PARALLEL, url: `https://${host}/` }
  yield await crowd(
    '200 requests at once through tunnels',
    () => inside(parallel),
    () => outside(parallel),
  )
  const ruledParallel = { ...PARALLEL, url: ruled.url }
  yield await crowd(
    'the same with TLS opened and a header injected',
    () => inside(ruledParallel),
    () => outside({ ...ruledParallel, headers: { authorization: AUTHORIZATION } }),
  )
  const opened = { ...CONNECTIONS, to: bulk.to }
  const rates = await inTurn(
    () => figure(inside, opened, 'rate'),
    () => figure(outside, opened, 'rate'),
  )
  yield {
    row: 'connections through the tunnel, one after another, a request on each',
    measured: `${round(rates.ours, 0)}/s = ${round(rates.ratio)} ×`,
    comparison: `outside ${round(rates.theirs, 0)}/s`,
    must: '',
    stretch: '',
    passed: undefined,
    figures: { ...rates },
  }
  await session.release()
}

/** `other`: what `theirs` is; default: outside. */
type Latency = { row: string; ours: () => Promise<number>; theirs: () => Promise<number>; other?: string; times: number; plusMs: number }

const latency = async ({ row, ours, theirs, other = 'outside', times, plusMs }: Latency): Promise<Row> => {
  const result = await inTurn(ours, theirs)
  return {
    row,
    measured: `${round(result.ours)} ms = ${round(result.ratio)} ×, adds ${round(result.ours - result.theirs)} ms`,
    comparison: `${other} ${round(result.theirs)} ms`,
    must: `≤ ${times} ×${plusMs === 0 ? '' : ` + ${plusMs} ms`}`,
    stretch: '',
    passed: result.ours <= times * result.theirs + plusMs,
    figures: { ...result },
  }
}

/** Many at once, which all have to be answered. */
export const crowd = async (row: string, ours: () => Promise<Figures>, theirs: () => Promise<Figures>): Promise<Row> => {
  const [through, at] = [await ours(), await theirs()]
  const text = ({ rate, p50, p99 }: Figures): string => `${round(rate, 0)}/s, p50 ${round(p50, 0)} ms, p99 ${round(p99, 0)} ms`
  return {
    row,
    measured: `${text(through)}, ${through.errors} errors`,
    comparison: text(at),
    must: '0 errors',
    stretch: '',
    passed: through.errors === 0,
    figures: { ...through, outside_rate: at.rate, outside_p50: at.p50, outside_p99: at.p99 },
  }
}
