import { copyFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openIdentity } from '../../../apps/agent/src/broker-link/identity.ts'
import { TokenIssuer } from '../../../apps/broker/src/tokens/issuer.ts'
import { KeyFiles } from '../../../apps/broker/src/tokens/key-files.ts'
import { SigningKeys } from '../../../apps/broker/src/tokens/keys.ts'
import { askChallenge, newAgentKey, proofBy, registrationOf } from '../../../apps/broker/test/support/agent-key.ts'
import { startServer } from '../../../apps/broker/test/support/server.ts'
import { startTestBroker } from '../../../apps/broker/test/support/test-broker.ts'
import { startAgent } from '../support/started-agent.ts'

test('[C-50, C-79] who has the enroll token and the install id of an agent gets neither its sessions nor its control tokens', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const agent = parts.use(await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken }))
  expect((await stat(join(agent.dataDir, 'agent-key.pem'))).mode & 0o777).toBe(0o600)
  const mine = await broker.ensure('mine')

  const rogue = await startServer((_, response) => void response.writeHead(204).end())
  parts.defer(() => rogue.close())
  const installId = (await readFile(join(agent.dataDir, 'install-id'), 'utf8')).trim()
  const plain = registrationOf({ install_id: installId, instance_id: 'badbadbadbad', public_url: rogue.url, control_url: rogue.url })
  const proof = proofBy(newAgentKey(), await askChallenge(broker.url, broker.enrollToken), plain)
  for (const request of [plain, { ...plain, proof }])
    expect((await broker.as(broker.enrollToken).post('/v1/agents/register', request)).status).toBe(403)

  expect((await broker.ensure('mine')).session_id).toBe(mine.session_id)
  expect((await broker.ensure('another')).sandbox.id).not.toBe(mine.sandbox.id)
  await broker.release(mine.session_id)
  await broker.broker.settled()
  expect(rogue.received).toEqual([])
})

test('[C-50] a control token for another key than that of the agent is of no use at the agent', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const agent = parts.use(await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken }))
  const keys = await SigningKeys.open(new KeyFiles(broker.dataDir), Date.now)
  const replay = async (publicKey: string | null): Promise<number> => {
    const issuer = new TokenIssuer(keys, 60, Date.now)
    issuer.issuer = broker.url
    const token = issuer.control({ id: agent.agentId ?? '', publicKey })
    return (await fetch(`${agent.controlUrl}/control/v1/sandboxes`, { headers: { authorization: `Bearer ${token}` } })).status
  }
  const { publicKey } = await openIdentity(agent.dataDir)
  expect([await replay(publicKey), await replay(newAgentKey().publicKey), await replay(null)]).toEqual([200, 401, 401])
  expect((await broker.ensure('mine')).sandbox.id).toMatch(/^sb_/)
})

test('[C-50] an agent that starts again on its data directory is the same one', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const first = await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken })
  const { agentId, dataDir } = first
  await first.agent.close()
  await using second = await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken, dataDir })
  expect(second.agentId).toBe(agentId)
  await second.agent.close()
  await first[Symbol.asyncDispose]()
})

test('[C-50] a copied data directory is refused while the agent that it is of lives, costs it no session, and takes over after it', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const settings = { brokerUrl: broker.url, enrollToken: broker.enrollToken }
  const first = parts.use(await startAgent(settings))
  const mine = await broker.ensure('mine')

  const dataDir = await mkdtemp(join(tmpdir(), 'bxo-copy-'))
  parts.defer(() => rm(dataDir, { recursive: true, force: true }))
  for (const name of ['install-id', 'agent-key.pem', 'broker-trust.json']) await copyFile(join(first.dataDir, name), join(dataDir, name))
  // The other machine has none of the sandboxes; this one would find them.
  const copy = parts.use(await startAgent({ ...settings, dataDir }, { candidates: [] }))
  expect(copy.agentId).toBeUndefined()
  const seen = await broker.get<{ agents: { id: string; public_url: string }[] }>('/v1/agents')
  expect(seen.body.agents).toMatchObject([{ id: first.agentId, public_url: first.url }])
  expect(await broker.ensure('mine')).toMatchObject({ session_id: mine.session_id, sandbox: { id: mine.sandbox.id } })

  await first.agent.close()
  const url = async () =>
    (await broker.get<{ agents: { public_url: string }[] }>('/v1/agents')).body.agents.map(({ public_url }) => public_url)
  await expect.poll(url, { timeout: 60_000 }).toEqual([copy.url])
})

test('[C-50] an install of before keeps its sessions and gets no key of another one while it is heard', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const agent = parts.use(await startAgent({ brokerUrl: broker.url, enrollToken: broker.enrollToken }))
  const mine = await broker.ensure('mine')
  expect((await broker.post(`/v1/agents/${agent.agentId}/rekey`)).status).toBe(204)
  const installId = (await readFile(join(agent.dataDir, 'install-id'), 'utf8')).trim()
  const plain = registrationOf({ install_id: installId, instance_id: 'badbadbadbad', control_url: agent.controlUrl })
  const proof = proofBy(newAgentKey(), await askChallenge(broker.url, broker.enrollToken), plain)
  // 403 where the agent has been faster, and has pinned its own key again.
  expect([403, 409]).toContain((await broker.as(broker.enrollToken).post('/v1/agents/register', { ...plain, proof })).status)
  const audited = async () => (await broker.get<{ entries: unknown[] }>('/v1/audit?event=agent.register')).body.entries.length
  await expect.poll(audited, { timeout: 60_000 }).toBe(2)
  expect((await broker.as(broker.enrollToken).post('/v1/agents/register', plain)).status).toBe(403)
  expect((await broker.ensure('mine')).sandbox.id).toBe(mine.sandbox.id)
})

test('[C-50] an agent restarts with the one-use token that it has spent; another one is refused and ends', async () => {
  await using parts = new AsyncDisposableStack()
  const broker = await startTestBroker()
  parts.defer(() => broker.stop())
  const { body } = await broker.post<{ token: string }>('/v1/enroll-tokens', { name: 'once', one_use: true })
  const settings = { brokerUrl: broker.url, enrollToken: body.token }
  const first = parts.use(await startAgent(settings))
  await first.agent.close()
  const again = parts.use(await startAgent({ ...settings, dataDir: first.dataDir }))
  expect(again.agentId).toBe(first.agentId)
  await expect(startAgent(settings)).rejects.toThrow('the enroll token is spent')
})
