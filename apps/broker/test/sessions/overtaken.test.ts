import { join } from 'node:path'
import type { PrincipalLimit } from '@boxoffice/node-http'
import { decodeJwt } from 'jose'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { claimAuthorizer } from '../../src/access/authorizer.ts'
import { Credential } from '../../src/access/credential.ts'
import type { Principal } from '../../src/access/principals.ts'
import { systemOrigin } from '../../src/domain/audit-entry.ts'
import { createLog } from '../../src/host/log.ts'
import type { NegotiateRequest } from '../../src/sessions/negotiate-request.ts'
import { createSessions } from '../../src/sessions/sessions.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { AgentRecord, Store } from '../../src/store/store.ts'
import { TokenIssuer } from '../../src/tokens/issuer.ts'
import { KeyFiles } from '../../src/tokens/key-files.ts'
import { SigningKeys } from '../../src/tokens/keys.ts'
import { openCrowd, TENANT } from '../support/crowd.ts'
import { removeDir, tempDir } from '../support/test-broker.ts'

let directory: string
let store: Store
beforeEach(async () => {
  directory = tempDir()
  store = await openSqliteStore(join(directory, 'broker.db'))
})
afterEach(async () => {
  await store[Symbol.asyncDispose]()
  removeDir(directory)
})

const me: Principal = {
  id: 'me',
  tenant: TENANT,
  role: 'user',
  rights: new Set(),
  actorType: 'human',
  capabilities: null,
  credential: new Credential('', 'authorization'),
}
const request = (scope: NegotiateRequest['scope']): NegotiateRequest => ({
  scope,
  mode: 'ensure',
  shape: 'mvp',
  actor: undefined,
  requested: { capabilities: null, unknown: [] },
  sandboxHint: null,
  provider: null,
  profile: null,
  overrides: null,
  relay: null,
  labels: {},
  onMismatch: 'warn',
  members: null,
  wait: 0,
  repeatable: null,
})

/** Sessions over `seen`; their agent needs not be called. */
const sessionsOver = async (seen: Store) => {
  const issuer = new TokenIssuer(await SigningKeys.open(new KeyFiles(directory), Date.now), 600, Date.now)
  const nobody = {} as never
  return createSessions({
    store: seen,
    client: nobody,
    placement: nobody,
    authorizer: claimAuthorizer,
    issuer,
    profiles: new Map(),
    tokenTtlSeconds: 600,
    maxSessions: 10,
    createLimit: nobody as PrincipalLimit,
    brokerId: 'brk_1',
    log: createLog('silent'),
    now: Date.now,
  })
}

const agents = (): Store['agents'] => ({ ...store.agents, byId: async (id) => ({ id }) as AgentRecord })

test('[C-23] no token is given out for a sandbox that was made anew since the session was read', async () => {
  const { add, writer } = openCrowd(store)
  const read = await add()
  const remade = await writer.change(read, { type: 'new_incarnation', incarnation: 2, mounts: read.mounts })
  expect(remade.refused).toBeUndefined()
  // The first look at the scope was before the change.
  const looks = [read]
  const ofScope: Store['ofScope'] = async (tenant, scope) => {
    const state = await store.ofScope(tenant, scope)
    return { ...state, live: (looks.shift() as typeof read & { state: 'active' }) ?? state.live }
  }
  const sessions = await sessionsOver({ ...store, agents: agents(), ofScope })
  const grant = await sessions.service.negotiate(me, request(read.scope), systemOrigin(TENANT))
  expect(grant.session.incarnation).toBe(2)
  expect(decodeJwt(grant.token.token)).toMatchObject({ sid: read.id, gen: 2 })
  const acquired = await store.audit.query({
    tenant: TENANT,
    event: 'sandbox.session.acquire',
    sessionId: null,
    threadId: null,
    caller: null,
    since: null,
    until: null,
    limit: 10,
    before: null,
  })
  expect(acquired.map(({ tokenHash, data }) => [tokenHash, data])).toEqual([[grant.token.hash, { jti: grant.token.jti }]])
})

test('a scope that changes at every look is given up after a hundred rounds', async () => {
  const { add, writer } = openCrowd(store)
  const read = await add()
  await writer.change(read, { type: 'new_incarnation', incarnation: 2, mounts: read.mounts })
  let looks = 0
  const live = async () => {
    looks++
    return read as typeof read & { state: 'active' }
  }
  const ofScope: Store['ofScope'] = async (tenant, scope) => ({
    ...(await store.ofScope(tenant, scope)),
    live: await live(),
  })
  const sessions = await sessionsOver({ ...store, agents: agents(), ofScope })
  await expect(sessions.service.negotiate(me, request(read.scope), systemOrigin(TENANT))).rejects.toThrow(/changed 100 times/)
  expect(looks).toBe(100)
})
