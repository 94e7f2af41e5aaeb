import { createPrivateKey } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { TestDataplane } from '../../apps/agent/test/support/dataplane.ts'
import { ISSUER } from '../../apps/agent/test/support/tokens.ts'
import { createDataplaneClient, type DataplaneClient, type SessionDataplane } from '../../apps/broker/src/dataplane/client.ts'
import type { PlacedSession } from '../../apps/broker/src/domain/session.ts'
import type { AgentRecord } from '../../apps/broker/src/store/store.ts'
import { TokenIssuer } from '../../apps/broker/src/tokens/issuer.ts'

let plane: TestDataplane
let client: DataplaneClient
let session: SessionDataplane
beforeEach(async () => {
  plane = await TestDataplane.start()
  const { issuer: test, sandbox, origin } = plane
  const privateKey = createPrivateKey(test.privateKey.export({ format: 'pem', type: 'pkcs8' }))
  const issuer = new TokenIssuer({ current: { kid: test.kid, activeAt: 0, privateKey, jwk: test.jwks.keys[0] as never } }, 600, Date.now)
  issuer.issuer = ISSUER
  const placed = {
    ...{ id: sandbox.sessionId, sandboxId: sandbox.id, state: 'active', agentId: 'agt', incarnation: 1, tenant: 'tenant' },
    ...{ scope: { type: 'thread', id: 't' }, hardExpiresAt: Date.now() + 3_600_000 },
  } as PlacedSession
  client = createDataplaneClient({
    store: {
      sessions: { byId: async (id) => (id === placed.id ? placed : undefined) },
      agents: { byId: async (id) => ({ id, dataplaneUrl: origin }) as AgentRecord },
      grants: { find: async () => undefined },
    },
    issuer,
    now: Date.now,
    monotonic: () => performance.now(),
  })
  session = client.session(placed.id)
})
afterEach(async () => {
  client.close()
  await plane[Symbol.asyncDispose]()
})

test('[3.2, 3.9] the broker runs commands and moves files with a token of its own', async () => {
  expect(await session.exec({ command: 'echo hi; exit 3' })).toMatchObject({ stdout: 'hi\n', exit_code: 3 })
  expect(await session.files.upload('a b/c.txt', Buffer.from('text'))).toMatchObject({ size: 4, created: true })
  expect((await session.files.download('a b/c.txt')).toString()).toBe('text')
  expect((await session.files.list()).files.map(({ path }) => path)).toEqual(['a b/c.txt'])
  await session.files.remove('a b', { recursive: true })
  await expect(session.files.download('a b/c.txt')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
  await expect(client.session('ssn_unknown').exec({ command: 'true' })).rejects.toMatchObject({ code: 'SESSION_RELEASED' })
})

test('[3.10, 2-65] its lines to a managed process go on over a lost connection', async () => {
  await session.processes.start({ process_id: 'p', command: 'cat' })
  const lines: string[] = []
  let closed = false
  const socket = await session.processes.attach('p', { line: (line) => lines.push(line), closed: () => (closed = true) })
  socket.send('one')
  await vi.waitFor(() => expect(lines).toEqual(['one']), { timeout: 60_000 })
  await expect(session.processes.attach('p', { line: () => {}, closed: () => {} })).rejects.toMatchObject({ code: 'ALREADY_ATTACHED' })
  plane.cut()
  socket.send('two')
  await vi.waitFor(() => expect(lines).toEqual(['one', 'two']), { timeout: 60_000 })
  await session.processes.stop('p')
  await vi.waitFor(() => expect(closed).toBe(true), { timeout: 60_000 })
  expect(await session.processes.get('p')).toMatchObject({ status: 'exited' })
})
