import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Profile } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AgentConfig, type AgentReady, createAgent } from '../../src/index.ts'
import { ENROLL_TOKEN, TestBroker } from './support/broker.ts'
import { silent } from './support/host.ts'

let broker: TestBroker
let dataDir: string
beforeEach(async () => {
  broker = await TestBroker.start()
  dataDir = await mkdtemp('/tmp/bxa-')
})
afterEach(async () => {
  await broker.close()
  await rm(dataDir, { recursive: true, force: true })
})

const newAgent = () =>
  createAgent(
    AgentConfig.parse({ dataDir, port: 0, brokerUrl: broker.url, enrollToken: ENROLL_TOKEN, provider: 'local', destroyOnExit: true }),
    { log: silent },
  )

/** Makes the session's sandbox and starts something in it that goes on for long. */
const startWork = async ({ url, controlUrl }: AgentReady, session: string): Promise<string> => {
  const post = (method: string, address: string, token: string, body: unknown) =>
    fetch(address, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }).then(async (response) => ({ status: response.status, body: (await response.json()) as Record<string, unknown> }))
  const sandbox = { tenant_id: 't', profile: Profile.parse({ name: 'default' }) }
  const made = await post('PUT', `${controlUrl}/control/v1/sessions/${session}/sandbox`, broker.controlToken(), sandbox)
  const id = String(made.body.sandbox_id)
  const now = Math.floor(Date.now() / 1000)
  const claims = { iss: broker.url, aud: id, sub: 'p', sid: session, thread_id: 't', sandbox_id: id, tid: 't' }
  const token = broker.sign({ ...claims, caps: ['exec'], gen: 1, iat: now, exp: now + 60, jti: randomUUID(), ver: 1 })
  const begun = await post('POST', `${url}/sandboxes/${id}/v1/exec`, token, { command: 'sleep 1000', detach: true })
  expect(begun.status).toBe(202)
  return id
}

/** Of the processes of this host: bubblewrap is told what to mount from there. */
const commandsWith = async (path: string): Promise<string[]> => {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return commands.filter((command) => command.includes(path))
}

describe('[2-27] an agent that ends its sandboxes with itself', () => {
  test('tells the broker which sessions have lost theirs, and what ended the processes in them', async () => {
    const agent = newAgent()
    const id = await startWork(await agent.start(), 's1')
    await agent.close()
    const { partial, sandboxes, journal } = broker.heartbeats.at(-1) ?? {}
    expect({ partial, sandboxes }).toMatchObject({
      partial: true,
      sandboxes: [{ sandbox_id: id, session_id: 's1', state: 'lost', reason: 'agent_stopped', gone: true }],
    })
    expect(journal).toContainEqual(
      expect.objectContaining({ sandbox_id: id, data: expect.objectContaining({ reason: 'killed', kill_cause: 'shutdown' }) }),
    )
  })

  test('leaves none that it was about to make', async () => {
    broker.pools = [Profile.parse({ name: 'default', pool_size: 3 })]
    for (let i = 0; i < 5; i++) {
      const agent = newAgent()
      await agent.start() // the pool is being filled
      await agent.close()
      const left = await Promise.all(['sandboxes', 'workspaces', 'local'].map((name) => readdir(join(dataDir, name))))
      expect(left).toEqual([[], [], []])
      await expect.poll(() => commandsWith(dataDir)).toEqual([])
    }
  })
})
