import { createServer } from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import { checkBroker } from '../src/doctor/check-broker.ts'
import { run, startUp } from './support/program.ts'

type Reply = { status: number; body: unknown }

/** Answers each path as told, everything else with 404. */
const answering = async (replies: Record<string, Reply>): Promise<string> => {
  const server = createServer(({ url = '' }, response) => {
    const { status, body } = replies[url] ?? { status: 404, body: 'not found' }
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}

test('doctor asks the running broker: whether it is one, knows the key, and can make sandboxes', async () => {
  const up = await startUp()
  onTestFinished(async () => void (await up.stop()))
  const brokerLine = async (env: Record<string, string>) => {
    const { stdout } = await run(['doctor', '--provider', 'local', '--json'], { env: { ...up.env, ...env } })
    return (JSON.parse(stdout) as { checks: { name: string; ok: boolean; message: string }[] }).checks.find(({ name }) => name === 'broker')
  }
  await expect
    .poll(() => brokerLine({}), { timeout: 60_000 })
    .toMatchObject({ ok: true, message: expect.stringContaining('answers, accepts the key, and can make') })
  expect(await brokerLine({ BOXOFFICE_API_KEY: 'wrong' })).toMatchObject({
    ok: false,
    message: expect.stringContaining('not accept the key'),
  })
}, 120_000)

test('doctor tells another program, a missing key and a broker that is not ready', async () => {
  const alive = { '/healthz': { status: 200, body: { status: 'ok' } } }
  const profiles = { '/v1/profiles': { status: 200, body: { profiles: [] } } }
  const notReady = { '/readyz': { status: 503, body: { error: { message: 'not ready: provider: none' } } } }
  const env = { BOXOFFICE_API_KEY: 'k' }
  expect(await checkBroker(await answering({}), env)).toMatchObject({ ok: false, message: expect.stringContaining('is no Boxoffice') })
  expect(await checkBroker(await answering(alive), { XDG_STATE_HOME: '/nonexistent' })).toMatchObject({
    ...{ ok: false, message: expect.stringContaining('no API key for') },
  })
  expect(await checkBroker(await answering({ ...alive, ...profiles, ...notReady }), env)).toMatchObject({
    ...{ ok: false, message: expect.stringContaining('accepts the key, but is not ready: provider: none') },
  })
})
