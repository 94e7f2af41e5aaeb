import { brokerClient, execOnce, type Grant, httpClient } from '../http.ts'
import { BULK } from '../profiles.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { download, upload } from './files.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'
import { throughExec } from './stdout.ts'

const BODY = '{"argv":["/bin/true"]}'
const COUNT = 400
/** Milliseconds that the relay may add to an exec, and the share of the direct throughput that it must keep. */
const MAY_ADD_MS = 0.4
const MUST_KEEP = 0.7

const latency = async (relayed: Grant, direct: Grant): Promise<Row> => {
  const client = httpClient()
  const time = (grant: Grant) => async () => median(await timeEach(COUNT, () => execOnce(client, grant, BODY)))
  await time(relayed)()
  await time(direct)()
  const added: number[] = []
  const result = await inTurn(async () => {
    const [through, at] = [await time(relayed)(), await time(direct)()]
    added.push(through - at)
    return through
  }, time(direct))
  const adds = median(added)
  return {
    row: 'POST /exec /bin/true through the relay, p50',
    measured: `${round(result.ours)} ms, adds ${round(adds)} ms`,
    comparison: `direct ${round(result.theirs)} ms`,
    must: `adds ≤ ${MAY_ADD_MS} ms`,
    stretch: '',
    passed: adds <= MAY_ADD_MS,
    figures: { ...result, adds },
  }
}

const throughput = async (name: string, relayed: () => Promise<number>, direct: () => Promise<number>): Promise<Row> => {
  await relayed()
  await direct()
  const result = await inTurn(relayed, direct)
  return {
    row: `1 GiB ${name} through the relay`,
    measured: `${round(result.ours, 0)} MiB/s = ${round(result.ratio)} ×`,
    comparison: `direct ${round(result.theirs, 0)} MiB/s`,
    must: `≥ ${MUST_KEEP} ×`,
    stretch: '',
    passed: result.ratio >= MUST_KEEP,
    figures: { ...result },
  }
}

export const needs: Needs = { docker: [BULK] }

/** The same session and the same requests, through the broker and straight to the agent, in turn. */
export const run = async ({ docker }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const relayed = await broker.ensure('bench-relay', 'bulk', 'always')
  const direct = await broker.ensure('bench-relay', 'bulk', 'never')
  if (relayed.sandbox.http_base_url === direct.sandbox.http_base_url) throw new Error('the relay was not used')
  const headers = { authorization: `Bearer ${direct.token}` }
  const up = (grant: Grant) => () => upload(`${grant.sandbox.http_base_url}/files/upload?path=big`, 'POST', headers)
  const down = (grant: Grant) => () => download(`${grant.sandbox.http_base_url}/files/download?path=big`, headers)
  const rows = [
    await latency(relayed, direct),
    await throughput(
      'of stdout over WS binary',
      () => throughExec(relayed),
      () => throughExec(direct),
    ),
    await throughput('upload', up(relayed), up(direct)),
    await throughput('download', down(relayed), down(direct)),
  ]
  await broker.release(direct.session_id)
  return rows
}
