import { join } from 'node:path'
import { CAPABILITIES } from '@boxoffice/protocol'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { isLive } from '../../src/domain/session.ts'
import type { SessionEffects } from '../../src/sessions/effects.ts'
import { Grants } from '../../src/sessions/grants.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import { startTestBroker, type TestBroker } from '../support/test-broker.ts'

let broker: TestBroker
let store: Store & AsyncDisposable
beforeEach(async () => {
  broker = await startTestBroker()
  await broker.startAgent({ heartbeat: false })
  store = await openSqliteStore(join(broker.dataDir, 'broker.db'))
})
afterEach(async () => {
  await store[Symbol.asyncDispose]()
  await broker.stop()
})

const identity = (id: string) => ({
  id,
  tenant: 'default',
  role: 'user' as const,
  actorType: 'human' as const,
  capabilities: null,
  rights: new Set(['act_as' as const]),
})
const member = { access: 'member' as const, capabilities: CAPABILITIES }

/** A session with members bob and carol, who have negotiated, and `grants` on a store of its own. */
const arrange = async () => {
  const [alice, bob] = [await broker.principal('alice'), await broker.principal('bob')]
  const made = await alice.ensure('t', { members: ['bob', 'carol'] })
  await bob.ensure('t', { requested_capabilities: ['exec'] })
  const session = await store.sessions.byId(made.session_id)
  if (session === undefined || !isLive(session)) return expect.fail('has no session')
  const effects = { push: () => {} } as unknown as SessionEffects
  const grants = new Grants({ store, effects, profiles: new Map(), tokenTtlSeconds: 300, now: Date.now })
  const ask = (principal: string, actor: string) =>
    grants.negotiate(
      session,
      { principal: identity(principal), actor, decision: member },
      { capabilities: ['fs_read'], unknown: [] },
      false,
    )
  return { session, grants, ask }
}

test('[C-57] a grant that was read before a withdrawal and is written after it does not undo it', async () => {
  const { session, grants, ask } = await arrange()
  // An operator negotiates for bob.
  const { record } = await ask('operator', 'bob')
  await grants.withdraw(session, 'bob')
  const withdrawn = await store.grants.find(session.id, 'bob')
  expect(withdrawn).toMatchObject({ narrowedTo: [], narrowedAt: expect.any(Number) })
  if (record === null) return expect.fail('there is nothing to write')
  await store.grants.put([record], [])
  expect(await store.grants.find(session.id, 'bob')).toMatchObject({ narrowedTo: [], narrowedAt: withdrawn?.narrowedAt })
})

test('[C-57] what is granted to others while it is withdrawn is withdrawn as well', async () => {
  const { session, grants, ask } = await arrange()
  const { record } = await ask('bob', 'dave')
  if (record === null) return expect.fail('there is nothing to write')
  // Both are under way; the grant is written first.
  await Promise.all([store.grants.put([record], []), grants.withdraw(session, 'bob')])
  expect(await store.grants.find(session.id, 'dave')).toMatchObject({ narrowedTo: [], narrowedAt: expect.any(Number) })
})
