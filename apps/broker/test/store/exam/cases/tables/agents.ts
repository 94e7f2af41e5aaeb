import { expect, test } from 'vitest'
import type { AgentRecord, AgentSeen, EnrollTokenRecord } from '../../../../../src/store/store.ts'
import type { Stores } from '../../exam.ts'
import {
  active,
  against,
  audited,
  auditOf,
  change as changeSession,
  fresh,
  howMany,
  madeBy,
  provisioning,
  RELEASED,
  together,
} from '../../parts.ts'

const provider = { name: 'local', isolation: 'bubblewrap', available: true, reason: null, suspend: ['freeze' as const] }

const CAPACITY = { sessions: 3, room: 5, limit: 'memory', memory: { have: 2 ** 40, asked: 7 }, processors: { have: 2, asked: 0.5 } }

const newAgent = (fields: Partial<AgentRecord> = {}): AgentRecord => ({
  id: fresh('agt'),
  installId: fresh('install'),
  publicKey: fresh('key'),
  enrollTokenId: null,
  instanceId: 'i1',
  tokenHash: fresh('hash'),
  publicUrl: 'http://public',
  controlUrl: 'http://control',
  dataplaneUrl: 'unix:/run/x',
  previewDomain: 'previews.example.com',
  relay: 'auto',
  provider,
  capacity: null,
  version: '1',
  clockDriftMs: -3,
  registeredAt: 100,
  lastSeenAt: 100,
  ...fields,
})

/** A report of the agent, of some of its sandboxes. */
const reportOf = (agent: AgentRecord, fields: Partial<AgentSeen> = {}): AgentSeen => ({
  ...{ id: agent.id, tokenHash: agent.tokenHash, instanceId: agent.instanceId },
  ...{ provider: agent.provider, capacity: agent.capacity },
  ...{ now: 900, since: 0, isWhole: false, wantedBefore: 0, ...fields },
})

const newToken = (fields: Partial<EnrollTokenRecord> = {}): EnrollTokenRecord => ({
  id: fresh('ent'),
  hash: fresh('hash'),
  name: 'own "one"',
  oneUse: false,
  createdAt: 100,
  expiresAt: null,
  usedAt: null,
  usedBy: null,
  revokedAt: null,
  ...fields,
})

export function agentCases(at: Stores): void {
  const token = async (fields: Partial<EnrollTokenRecord> = {}) => {
    const made = newToken(fields)
    await at.one.enrollTokens.insert(made, [])
    return made
  }
  /** The entry of a registration is found by the install. */
  const register = (store: Stores['one'], agent: AgentRecord, before?: AgentRecord) =>
    store.agents.register(agent, before, [audited(agent.installId)])
  const registrations = async ({ installId }: AgentRecord) => (await auditOf(at.one, installId)).length

  test('a scope is looked up with its owner, its members, its live session and the agent of that', async () => {
    const agent = newAgent()
    await register(at.one, agent)
    const session = await active(at.one, { agentId: agent.id })
    const { tenant, scope, createdBy } = session
    const change = { tenant, scope, known: createdBy, owner: createdBy, members: ['bob', 'ann'], now: 1 }
    await at.one.scopes.setMembers(change, [])
    const found = await at.other.ofScope(tenant, scope)
    expect({ ...found, ownership: { ...found.ownership, members: found.ownership.members.toSorted() } }).toEqual({
      ownership: { owner: createdBy, members: ['ann', 'bob'] },
      live: session,
      agent,
    })
    const nowhere = await active(at.one, { agentId: 'unknown' })
    expect(await at.other.ofScope(nowhere.tenant, nowhere.scope)).toMatchObject({ live: { id: nowhere.id }, agent: undefined })
    await changeSession(at.one, session.id, RELEASED)
    expect(await at.other.ofScope(tenant, scope)).toMatchObject({ live: undefined, agent: undefined })
    const nothing = { ownership: { owner: null, members: [] }, live: undefined, agent: undefined }
    expect(await at.other.ofScope(tenant, { type: 'thread', id: 'another' })).toEqual(nothing)
  })

  test('an agent reads as it registered, at each store, and its next registration replaces all but its id', async () => {
    const agent = newAgent()
    expect(await register(at.one, agent)).toEqual({ outcome: 'registered', id: agent.id })
    const stores = [at.one, at.other]
    for (const { agents } of stores) expect([await agents.byId(agent.id), await agents.byInstall(agent.installId)]).toEqual([agent, agent])
    const { installId, publicKey } = agent
    const next = newAgent({
      installId,
      publicKey,
      capacity: { ...CAPACITY, room: 0 },
      instanceId: 'i2',
      version: '2',
      relay: 'never',
      registeredAt: 200,
      clockDriftMs: 5,
    })
    expect(await register(at.other, next, agent)).toEqual({ outcome: 'registered', id: agent.id })
    for (const { agents } of stores) {
      expect(await agents.byId(agent.id)).toEqual({ ...next, id: agent.id })
      expect(await agents.byId(next.id)).toBeUndefined()
    }
    expect(await registrations(agent)).toBe(2)
    const { id } = agent
    const away = { ...provider, available: false, reason: 'x', suspend: [] }
    const seen = await at.one.agents.seen(reportOf({ ...next, id, provider: away, capacity: CAPACITY }, { now: 777 }))
    expect(seen?.agent).toEqual({ ...next, id, provider: away, capacity: CAPACITY, lastSeenAt: 777 })
    for (const { agents } of stores)
      expect(await agents.byId(agent.id)).toMatchObject({ lastSeenAt: 777, instanceId: 'i2', provider: { available: false, suspend: [] } })
  })

  test('agents are listed by their registration', async () => {
    const all = [newAgent({ registeredAt: 3 }), newAgent({ registeredAt: 1 }), newAgent({ registeredAt: 2 })]
    for (const agent of all) await register(at.one, agent)
    const own = new Set(all.map(({ id }) => id))
    const listed = (await at.other.agents.list()).filter(({ id }) => own.has(id))
    expect(listed).toEqual(all.toSorted((a, b) => a.registeredAt - b.registeredAt))
  })

  test('[C-50] an install keeps its key until an operator forgets it, and registers by what was known of it', async () => {
    const agent = newAgent()
    await register(at.one, agent)
    const stranger = newAgent({ installId: agent.installId })
    for (const known of [agent, undefined]) expect(await register(at.other, stranger, known)).toEqual({ outcome: 'another_key' })
    const again = newAgent({ installId: agent.installId, publicKey: agent.publicKey })
    expect(await register(at.other, again, undefined)).toEqual({ outcome: 'changed' })
    expect(await register(at.other, newAgent(), agent)).toEqual({ outcome: 'changed' })
    expect(await at.one.agents.byId(agent.id)).toEqual(agent)
    expect(await registrations(agent)).toBe(1)
    expect(await at.other.agents.forgetKey(agent.id, [audited(agent.installId)])).toBe(true)
    expect(await at.other.agents.forgetKey(fresh('agt'), [audited(agent.installId)])).toBe(false)
    expect(await registrations(agent)).toBe(2)
    expect(await at.one.agents.byId(agent.id)).toEqual({ ...agent, publicKey: null })
    expect(await register(at.one, stranger, agent)).toEqual({ outcome: 'registered', id: agent.id })
  })

  test('[C-50] an install whose agent takes over has the new key, and is judged by what was known of it all the same', async () => {
    const agent = newAgent()
    await register(at.one, agent)
    const next = newAgent({ installId: agent.installId })
    const takeOver = (known: AgentRecord | undefined) => at.other.agents.register(next, known, [audited(agent.installId)], true)
    expect(await takeOver(undefined)).toEqual({ outcome: 'changed' })
    expect(await takeOver(agent)).toEqual({ outcome: 'registered', id: agent.id })
    expect(await at.one.agents.byId(agent.id)).toEqual({ ...next, id: agent.id })
    expect(await register(at.one, newAgent({ installId: agent.installId }), next)).toEqual({ outcome: 'another_key' })
  })

  test('[C-50] enroll tokens are listed newest first, found by their hash, and revoked once', async () => {
    const all = [await token({ createdAt: 1, oneUse: true, expiresAt: 9 }), await token({ createdAt: 3 }), await token({ createdAt: 2 })]
    for (const one of all) expect(await at.other.enrollTokens.byHash(one.hash)).toEqual(one)
    const own = new Set(all.map(({ id }) => id))
    expect((await at.other.enrollTokens.list()).filter(({ id }) => own.has(id))).toEqual([all[1], all[2], all[0]])
    const [first] = all
    if (first === undefined) return expect.fail()
    const revoked = await together(at, 8, (store) => store.enrollTokens.revoke(first.id, 50, [audited(first.id)]))
    expect(howMany(revoked, true)).toBe(1)
    expect(await at.one.enrollTokens.revoke(fresh('ent'), 50, [audited(first.id)])).toBe(false)
    expect(await auditOf(at.one, first.id)).toHaveLength(1)
    expect(await at.other.enrollTokens.byHash(first.hash)).toEqual({ ...first, revokedAt: 50 })
    expect(await at.one.enrollTokens.byHash(fresh('hash'))).toBeUndefined()
  })

  test('[C-50] a token that serves no more enrolls nobody, and nothing is written', async () => {
    const used = await token({ oneUse: true })
    const agent = newAgent({ enrollTokenId: used.id, registeredAt: 300 })
    expect(await register(at.one, agent)).toEqual({ outcome: 'registered', id: agent.id })
    expect(await at.other.enrollTokens.byHash(used.hash)).toEqual({ ...used, usedAt: 300, usedBy: agent.id })
    const [expired, revoked] = [await token({ expiresAt: 200 }), await token()]
    await at.one.enrollTokens.revoke(revoked.id, 1, [])
    const refused = [
      [used.id, 'spent'],
      [expired.id, 'expired'],
      [revoked.id, 'revoked'],
      [fresh('ent'), 'revoked'],
    ] as const
    for (const [enrollTokenId, outcome] of refused) {
      const other = newAgent({ enrollTokenId, registeredAt: 200 })
      expect(await register(at.other, other)).toEqual({ outcome })
      expect(await at.other.agents.byInstall(other.installId)).toBeUndefined()
      expect(await registrations(other)).toBe(0)
    }
    const before = newAgent({ enrollTokenId: expired.id, registeredAt: 199 })
    expect(await register(at.one, before)).toEqual({ outcome: 'registered', id: before.id })
    // The install that a token has enrolled comes again by it, until it is revoked.
    for (const [one, enrolledBy] of [
      [agent, used],
      [before, expired],
    ] as const) {
      const again = { ...one, tokenHash: fresh('hash'), registeredAt: 400 }
      expect(await register(at.other, again, one)).toEqual({ outcome: 'registered', id: one.id })
      expect((await at.one.enrollTokens.byHash(enrolledBy.hash))?.usedAt).toBe(one.registeredAt)
      await at.other.enrollTokens.revoke(enrolledBy.id, 1, [])
      expect(await register(at.one, { ...again, tokenHash: fresh('hash') }, again)).toEqual({ outcome: 'revoked' })
    }
  })

  test('one install that registers 8 times at once is registered once, and is one agent', async () => {
    const installId = fresh('install')
    const publicKey = fresh('key')
    const all = Array.from({ length: 8 }, () => newAgent({ installId, publicKey }))
    const outcomes = await together(at, 8, (store, n) => register(store, all[n] ?? expect.fail()))
    const won = outcomes.findIndex(({ outcome }) => outcome === 'registered')
    expect(outcomes.filter(({ outcome }) => outcome === 'changed')).toHaveLength(7)
    expect(outcomes[won]).toEqual({ outcome: 'registered', id: all[won]?.id })
    expect((await at.one.agents.list()).filter((agent) => agent.installId === installId)).toEqual([all[won]])
    expect(await auditOf(at.one, installId)).toHaveLength(1)
  })

  test('[C-50] of 8 keys that claim one install at once one is its key', async () => {
    const installId = fresh('install')
    const outcomes = await together(at, 8, (store) => register(store, newAgent({ installId })))
    expect(outcomes.filter(({ outcome }) => outcome === 'registered')).toHaveLength(1)
    expect(outcomes.filter(({ outcome }) => outcome === 'another_key')).toHaveLength(7)
  })

  test('[C-50] a one-use token by which 8 installs register at once enrolls one', async () => {
    const { id: enrollTokenId, hash } = await token({ oneUse: true })
    const all = Array.from({ length: 8 }, () => newAgent({ enrollTokenId }))
    const outcomes = await together(at, 8, (store, n) => register(store, all[n] ?? expect.fail()))
    const won = all[outcomes.findIndex(({ outcome }) => outcome === 'registered')]
    expect(outcomes.filter(({ outcome }) => outcome === 'spent')).toHaveLength(7)
    const enrolled = (await at.one.agents.list()).filter((agent) => agent.enrollTokenId === enrollTokenId)
    expect(enrolled).toEqual([won])
    expect(await at.one.enrollTokens.byHash(hash)).toMatchObject({ usedBy: won?.id })
  })

  test('[C-50] a token that is revoked while an install registers by it: whoever is refused is not there', async () => {
    await against(at, async (mine, theirs) => {
      const { id: enrollTokenId } = await token()
      const agent = newAgent({ enrollTokenId })
      const [revoked, { outcome }] = await Promise.all([mine.enrollTokens.revoke(enrollTokenId, 1, []), register(theirs, agent)])
      expect(revoked).toBe(true)
      expect(['registered', 'revoked']).toContain(outcome)
      expect(await mine.agents.byInstall(agent.installId)).toEqual(outcome === 'registered' ? agent : undefined)
    })
  })

  test('heartbeats beside a registration do not bring back what it replaced', async () => {
    await against(at, async (mine, theirs) => {
      const agent = newAgent()
      await register(mine, agent)
      const next = { ...agent, tokenHash: fresh('hash'), instanceId: 'i2', registeredAt: 500, lastSeenAt: 500 }
      await Promise.all([
        mine.agents.seen(reportOf(agent, { now: 400 })),
        register(theirs, next, agent),
        mine.agents.seen(reportOf(agent, { now: 600 })),
      ])
      // Its token is not the agent's any more.
      expect(await mine.agents.seen(reportOf(agent, { now: 700 }))).toBeUndefined()
      for (const { agents } of [mine, theirs]) {
        const { lastSeenAt, ...rest } = (await agents.byId(agent.id)) ?? expect.fail()
        expect(rest).toMatchObject({ tokenHash: next.tokenHash, instanceId: 'i2', registeredAt: 500 })
        expect(lastSeenAt).toBe(500)
      }
    })
  })

  test('a report is taken from the token and the instance of the latest registration only', async () => {
    const agent = newAgent()
    await register(at.one, agent)
    for (const wrong of [{ tokenHash: fresh('hash') }, { instanceId: 'i2' }, { id: fresh('agt') }])
      expect(await at.other.agents.seen(reportOf({ ...agent, ...wrong }))).toBeUndefined()
    expect(await at.one.agents.byId(agent.id)).toEqual(agent)
  })

  test('reports that come at once: each has the answer to itself, whatever the others are', async () => {
    const agents = Array.from({ length: 20 }, () => newAgent())
    for (const agent of agents) await register(at.one, agent)
    const [first, second, third] = agents as [AgentRecord, AgentRecord, AgentRecord]
    await at.one.agents.wantWhole(second.id, 1000)
    const reports = [
      ...agents.map((agent, i) => reportOf(agent, { now: 1000 + i })),
      // Once more of one of them, of no agent, of another instance, and with what PostgreSQL cannot hold.
      reportOf(first, { now: 2000 }),
      ...[{ id: fresh('agt') }, { tokenHash: fresh('hash') }, { instanceId: 'i2' }].map((wrong) => reportOf({ ...third, ...wrong })),
    ]
    const odd = at.other.agents.seen(reportOf({ ...third, instanceId: 'i\0' })).catch((thrown: { code: string }) => thrown.code)
    const answers = await Promise.all(reports.map((report) => at.other.agents.seen(report)))
    expect(answers.map((answer) => answer?.agent.id)).toEqual([...[...agents, first].map(({ id }) => id), undefined, undefined, undefined])
    expect(answers.flatMap((answer) => (answer?.wholeWanted ? [answer.agent.id] : []))).toEqual([second.id])
    expect([undefined, 'INVALID_REQUEST']).toContain(await odd)
    const seenAt = await Promise.all(agents.map(async ({ id }) => (await at.one.agents.byId(id))?.lastSeenAt))
    expect(seenAt).toEqual([2000, ...agents.slice(1).map((_, i) => 1001 + i)])
  })

  test('a report says what there may be to tell: ended sessions, narrowed grants and unwanted workspaces of this agent', async () => {
    const [agent, other] = [newAgent(), newAgent()]
    for (const one of [agent, other]) await register(at.one, one)
    const news = async (of: AgentRecord, since: number) => {
      const seen = await at.other.agents.seen(reportOf(of, { since }))
      return [seen?.ended, seen?.narrowed, seen?.unwanted]
    }
    const session = await provisioning(at.one, { agentId: agent.id })
    const since = Date.now() - 5000
    await changeSession(at.one, session.id, madeBy(session), { workspace: 'hold' })
    const grant = { sessionId: session.id, actor: 'a', principal: 'p', grantedAt: 1, capabilities: null, carried: [] }
    await at.one.grants.put([{ ...grant, narrowedTo: [], narrowedAt: Math.ceil(Date.now() / 1000) }], [])
    await changeSession(at.one, session.id, RELEASED, { workspace: 'forget' })
    expect(await news(agent, since)).toEqual([true, true, true])
    // A store may say so without a look; what it says there is not must not be there.
    const [ended, narrowed, unwanted] = await news(other, since)
    if (!ended) expect(await at.one.agentSessions.endedOn(other.id, since)).toEqual([])
    if (!narrowed) expect(await at.one.grants.narrowedOn(other.id, Math.floor(since / 1000))).toEqual([])
    if (!unwanted) expect(await at.one.workspaces.unwantedOn(other.id)).toEqual([])
  })

  test('a whole report is wanted of an agent until one comes that was made after the wish', async () => {
    const [agent, other] = [newAgent(), newAgent()]
    for (const one of [agent, other]) await register(at.one, one)
    const isWanted = async (fields: Partial<AgentSeen>, of = agent) => (await at.other.agents.seen(reportOf(of, fields)))?.wholeWanted
    expect(await isWanted({})).toBe(false)
    await at.one.agents.wantWhole(agent.id, 1000)
    expect(await isWanted({}, other)).toBe(false)
    expect([await isWanted({}), await isWanted({ wantedBefore: 2000 })]).toEqual([true, true])
    expect(await isWanted({ isWhole: true, wantedBefore: 1000 })).toBe(true)
    expect(await isWanted({ isWhole: true, wantedBefore: 1001 })).toBe(false)
    await at.one.agents.wantWhole(null, 3000)
    expect([await isWanted({}), await isWanted({}, other)]).toEqual([true, true])
    expect(await at.one.agents.byId(agent.id)).toEqual({ ...agent, lastSeenAt: 900 })
  })

  test('[4-93] agents that are silent are found as long as they have a session with a sandbox', async () => {
    const [silent, heard, idle] = [newAgent({ lastSeenAt: 100 }), newAgent({ lastSeenAt: 500 }), newAgent({ lastSeenAt: 100 })]
    for (const one of [silent, heard, idle]) await register(at.one, one)
    const own = new Set([silent.id, heard.id, idle.id])
    const found = async (before: number, ids: string[] = []) =>
      (await at.other.agents.silentWithSessions(before, ids)).flatMap(({ id }) => (own.has(id) ? id : [])).toSorted()
    const session = await active(at.one, { agentId: silent.id })
    await active(at.one, { agentId: heard.id })
    await provisioning(at.one, { agentId: idle.id })
    expect(await found(100)).toEqual([])
    expect(await found(101)).toEqual([silent.id])
    expect(await found(0, [heard.id, idle.id, fresh('agt')])).toEqual([heard.id])
    expect(await found(501)).toEqual([silent.id, heard.id].toSorted())
    await changeSession(at.one, session.id, RELEASED)
    expect(await found(501)).toEqual([heard.id])
  })
}
