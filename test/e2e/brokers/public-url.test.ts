import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { brokerApi, dataplane } from '../support/api.ts'
import { startProgram } from '../support/program.ts'
import { reservePort } from '../support/reserve-port.ts'
import { API_KEY, ENROLL_TOKEN } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

test('[C-49] a broker that gets another public URL tells its agents, which keep their sandboxes', async () => {
  await using parts = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'bxo-'))
  parts.defer(() => rm(directory, { recursive: true, force: true }))
  const port = await reservePort()
  const startBroker = (name: string) =>
    startProgram([
      ...['broker', '--port', String(port), '--data-dir', directory, '--enroll-token', ENROLL_TOKEN, '--api-key', API_KEY],
      ...['--public-url', `http://${name}:${port}`],
    ])
  const first = await startBroker('127.0.0.1')
  parts.defer(async () => void (await first.stop()))
  const agent = await startProgram([
    ...['agent', '--broker-url', `http://127.0.0.1:${port}`, '--enroll-token', ENROLL_TOKEN, '--port', '0', '--data-dir', directory],
    ...['--provider', 'local', '--destroy-on-exit'],
  ])
  parts.defer(async () => void (await agent.stop()))
  const broker = brokerApi(`http://127.0.0.1:${port}`)
  const before = await broker.ensure('moved')
  expect((await dataplane(before, 'POST', '/exec', { command: 'echo here > kept.txt' })).status).toBe(200)

  await first.stop()
  const second = await startBroker('localhost')
  parts.defer(async () => void (await second.stop()))
  await eventually('tokens of the new issuer are believed', async () => {
    const grant = await broker.ensure('moved')
    expect(grant.session_id).toBe(before.session_id)
    return (await dataplane(grant, 'POST', '/exec', { command: 'cat kept.txt' })).text.includes('here')
  })
  // Orders of the broker are believed as well; they take effect within two seconds.
  await broker.release(before.session_id)
  await eventually(
    'the release ends its tokens',
    async () => (await dataplane(before, 'POST', '/exec', { command: 'true' })).status === 401,
  )
})
