import { expect, test } from 'vitest'
import type { E2bSandbox, E2bToken } from '../../../../../src/store/e2b-store.ts'
import type { Stores } from '../../exam.ts'
import { active, against, audited, change, fresh, provisioning, RELEASED, times, together, told } from '../../parts.ts'

const newSandbox = (fields: Partial<E2bSandbox> = {}): E2bSandbox => ({
  id: fresh('sandbox'),
  tenant: fresh('tenant'),
  principal: 'ann',
  sessionId: fresh('ses'),
  threadId: fresh('thread'),
  template: 'base',
  metadata: { '': 'nul \0', "it's": '"x" 票' },
  autoPause: true,
  madeSession: false,
  startedAt: 100,
  endAt: 8e15,
  paused: false,
  ...fields,
})

const newToken = (sandboxId: string, fields: Partial<E2bToken> = {}): E2bToken => ({
  ...{ hash: fresh('hash'), sandboxId, actor: 'ann', capabilities: ['exec'], madeAt: 100 },
  ...fields,
})

export function facadeCases(at: Stores): void {
  const insert = async (fields: Partial<E2bSandbox> = {}) => {
    const sandbox = newSandbox(fields)
    await at.one.e2b.insert(sandbox)
    return sandbox
  }

  test('a sandbox of E2B reads as it was made, by its id and its session, and changes its end', async () => {
    const sandbox = await insert()
    expect(await at.other.e2b.byId(sandbox.id)).toEqual(sandbox)
    expect(await at.other.e2b.bySession(sandbox.sessionId)).toEqual(sandbox)
    expect(await at.other.e2b.byId(fresh('sandbox'))).toBeUndefined()
    expect(await at.other.e2b.bySession(sandbox.id)).toBeUndefined()
    expect(await at.other.e2b.set(sandbox.id, { endAt: 7, paused: true })).toBe(true)
    expect(await at.one.e2b.byId(sandbox.id)).toEqual({ ...sandbox, endAt: 7, paused: true })
    expect(await at.one.e2b.set(fresh('sandbox'), { endAt: 7, paused: true })).toBe(false)
  })

  test('sandboxes of a tenant or a principal are listed oldest first, page after page', async () => {
    const tenant = fresh('tenant')
    const ids = ['b', 'Z', 'ä', 'a', '_'].map((name) => `${name}-${tenant}`)
    const all = await Promise.all(
      ids.map((id, n) => insert({ tenant, id, startedAt: n === 4 ? 50 : 100, principal: n < 2 ? 'bob' : 'ann' })),
    )
    const order = all.toSorted((a, b) => a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1))
    const seen: E2bSandbox[] = []
    for (;;) {
      const page = await at.other.e2b.list({ tenant, principal: null, after: seen.at(-1) ?? null, limit: 2 })
      seen.push(...page)
      if (page.length < 2) break
    }
    expect(seen).toEqual(order)
    const bobs = await at.other.e2b.list({ tenant, principal: 'bob', after: null, limit: 10 })
    expect(bobs).toEqual(order.filter(({ principal }) => principal === 'bob'))
  })

  test('those whose end has come are given, most overdue first, but not paused ones', async () => {
    const [later, first] = [await insert({ endAt: 2000 }), await insert({ endAt: 1000 })]
    await insert({ endAt: 1500, paused: true })
    const last = await insert({ endAt: 2001 })
    expect(await at.other.e2b.due(2000, 10)).toEqual([first, later])
    expect(await at.other.e2b.due(2001, 1)).toEqual([first])
    for (const { id } of [later, first, last]) await at.one.e2b.remove(id)
    expect(await at.other.e2b.due(9000, 10)).toEqual([])
  })

  test('a token finds its sandbox until that is removed; of too many the oldest go', async () => {
    const [sandbox, other] = [await insert(), await insert()]
    const tokens = times(4).map((n) => newToken(sandbox.id, { madeAt: n, capabilities: n === 3 ? [] : ['exec', 'fs_read'] }))
    const others = newToken(other.id, { madeAt: 0 })
    await at.one.e2b.addToken(others, 3)
    for (const token of tokens) await at.other.e2b.addToken(token, 3)
    const found = await Promise.all([...tokens, others].map(({ hash }) => at.one.e2b.byToken(hash)))
    expect(found).toEqual([undefined, ...tokens.slice(1).map((token) => ({ sandbox, token })), { sandbox: other, token: others }])
    expect(await at.one.e2b.byToken(fresh('hash'))).toBeUndefined()
    await at.one.e2b.remove(sandbox.id)
    expect(await at.other.e2b.byId(sandbox.id)).toBeUndefined()
    expect(await at.other.e2b.byToken(tokens[3]?.hash ?? '')).toBeUndefined()
    expect(await at.other.e2b.byToken(others.hash)).toBeDefined()
  })

  test('of 16 tokens that come at once with room for 3 the latest 3 stay', async () => {
    const sandbox = await insert()
    const tokens = times(16).map((madeAt) => newToken(sandbox.id, { madeAt }))
    expect(await together(at, 16, (store, n) => store.e2b.addToken(tokens[n] ?? expect.fail(), 3))).toHaveLength(16)
    const found = await Promise.all(tokens.map(({ hash }) => at.other.e2b.byToken(hash)))
    expect(found.flatMap((one) => one?.token.madeAt ?? [])).toEqual([13, 14, 15])
  })

  test('the environment of a session is replaced as a whole, and ends with it', async () => {
    const { id } = await provisioning(at.one)
    expect(await at.one.environments.of(id)).toBeUndefined()
    await at.one.environments.put(id, { A: '1', B: 'nul \0 \ud800 票' })
    expect(await at.other.environments.of(id)).toEqual({ A: '1', B: 'nul \0 \ud800 票' })
    await at.other.environments.put(id, { A: '2' })
    expect(await at.one.environments.of(id)).toEqual({ A: '2' })
    await change(at.one, id, { type: 'taken_over', fence: 1, brokerId: 'b', agentId: 'a' })
    expect(await at.one.environments.of(id)).toEqual({ A: '2' })
    await change(at.other, id, RELEASED)
    expect(await at.one.environments.of(id)).toBeUndefined()
    await at.one.environments.put(id, { A: '3' })
    await at.one.environments.put(fresh('ses'), { A: '3' })
    expect(await at.other.environments.of(id)).toBeUndefined()
  })

  test('an environment that is put while its session ends is not kept', async () => {
    await against(at, async (mine, theirs) => {
      const { id } = await active(mine)
      let isOver = false
      const end = change(mine, id, RELEASED, { events: [told(1)], audit: [audited(id)] }).finally(() => {
        isOver = true
      })
      while (!isOver) await theirs.environments.put(id, { A: '1' })
      await end
      expect(await mine.environments.of(id)).toBeUndefined()
    })
  })

  test('[2-48] the last failures of a tenant on the Box surface are kept, and none of another', async () => {
    const [tenant, other] = [fresh('tenant'), fresh('tenant')]
    const failure = (n: number) => ({
      at: 100 + n,
      type: 'validation_error',
      message: `it's ${n} "票"`,
      queryId: n % 2 === 0 ? null : `q${n}`,
    })
    await at.one.boxErrors.add(other, failure(0), 3)
    for (const n of times(5)) await (n % 2 === 0 ? at.one : at.other).boxErrors.add(tenant, failure(n), 3)
    for (const store of [at.one, at.other]) expect(await store.boxErrors.of(tenant)).toEqual([2, 3, 4].map(failure))
    expect(await at.other.boxErrors.of(other)).toEqual([failure(0)])
    expect(await at.one.boxErrors.of(fresh('tenant'))).toEqual([])
    await at.other.boxErrors.add(tenant, { ...failure(5), message: 'nul \0 \ud800', queryId: 'nul \0' }, 3)
    expect((await at.one.boxErrors.of(tenant)).at(-1)?.message).toMatch(/^nul [\0\uFFFD] /)
  })

  test('[2-48] of 32 failures that come at once to two brokers with room for 3, three stay', async () => {
    const tenant = fresh('tenant')
    await together(at, 32, (store, n) => store.boxErrors.add(tenant, { at: n, type: 'x', message: String(n), queryId: null }, 3))
    expect(await at.other.boxErrors.of(tenant)).toHaveLength(3)
  })
}
