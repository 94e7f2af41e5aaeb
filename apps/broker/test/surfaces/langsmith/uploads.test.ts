import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { API_KEY, ENROLL_TOKEN, startBrokerProcess } from '../../support/broker-process.ts'
import { startFakeAgent } from '../../support/fake-agent.ts'
import { tempDir } from '../../support/test-broker.ts'

test('[7.2] a client that leaves an upload which no agent takes does not end the broker', { timeout: 180_000 }, async () => {
  const broker = await startBrokerProcess(tempDir())
  onTestFinished(() => broker.kill().then(() => {}))
  const agent = await startFakeAgent({ brokerUrl: broker.url, enrollToken: ENROLL_TOKEN })
  expect((await broker.post('/compat/langsmith/v2/sandboxes/boxes', { name: 'left' })).status).toBe(201)
  await agent.close()
  const head = `POST /compat/langsmith/dp/left/upload?path=a HTTP/1.1\r\nhost: a\r\nx-api-key: ${API_KEY}\r\ncontent-length: 1000\r\n\r\n`
  // The broker dials the agent for 300 ms: clients leave before, within and after.
  for (const wait of [0, 50, 100, 200, 400]) {
    const client = connect(Number(broker.port), '127.0.0.1')
    client.on('error', () => {}).write(head)
    await setTimeout(wait)
    client.destroy()
  }
  // What the broker does at the client's end comes before its own.
  expect((await broker.get('/v1/profiles')).status).toBe(200)
  expect(await broker.stop()).toBe(0)
})
