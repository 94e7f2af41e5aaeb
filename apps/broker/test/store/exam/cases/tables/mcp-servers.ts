import { expect, test } from 'vitest'
import type { McpLease, McpServerStore } from '../../../../../src/store/mcp-server-store.ts'
import type { Store } from '../../../../../src/store/store.ts'
import type { Stores } from '../../exam.ts'
import { fresh, howMany, together } from '../../parts.ts'

const LONG_MS = 600_000

const serversOf = ({ mcpServers }: Store): McpServerStore => mcpServers ?? expect.fail('the store keeps no MCP servers')
const definition = (name = fresh('server')) => ({ name, sealed: fresh('sealed'), kekId: 'kek_1' })
const lease = (fields: Partial<McpLease> = {}): McpLease => ({ owner: fresh('broker'), ownerUrl: 'kek_1.url', leaseMs: LONG_MS, ...fields })

/** Of a database that brokers share. */
export function mcpServerCases(at: Stores): void {
  test('a server reads as it was added, with who has it, until it has been ended and removed', async () => {
    const [server, mine] = [definition(), lease()]
    expect(await serversOf(at.one).add(server, mine, 1000)).toBe('added')
    const row = {
      ...{ ...server, isConfigured: false, isEnding: false, owner: mine.owner, ownerUrl: mine.ownerUrl, isHeld: true },
      ...{ info: null, sessionId: null },
    }
    expect(await serversOf(at.other).find(server.name)).toEqual(row)
    expect(await serversOf(at.other).list()).toContainEqual(row)
    expect(await serversOf(at.other).add(definition(server.name), lease(), 1000)).toBe('exists')
    await serversOf(at.one).remove(server.name, mine.owner)
    expect(await serversOf(at.other).find(server.name)).toEqual(row)
    await serversOf(at.other).end([server.name])
    expect(await serversOf(at.one).find(server.name)).toEqual({ ...row, isEnding: true })
    await serversOf(at.other).remove(server.name, fresh('broker'))
    expect(await serversOf(at.one).find(server.name)).toBeDefined()
    await serversOf(at.one).remove(server.name, mine.owner)
    expect(await serversOf(at.other).find(server.name)).toBeUndefined()
  })

  test('of 8 brokers that add one of the same name at once one does; of many that add more than there may be, as many as may', async () => {
    const name = fresh('server')
    const added = await together(at, 8, (store) => serversOf(store).add(definition(name), lease(), 1000))
    expect([howMany(added, 'added'), howMany(added, 'exists')]).toEqual([1, 7])
    const { length } = await serversOf(at.one).list()
    const outcomes = await together(at, 8, (store) => serversOf(store).add(definition(), null, length + 3))
    expect([howMany(outcomes, 'added'), howMany(outcomes, 'full')]).toEqual([3, 5])
  })

  test('of 8 brokers that want a server at once one gets it, and nobody else until its lease has run out or it lets go', async () => {
    const [server, other] = [definition(), definition()]
    for (const each of [server, other]) await serversOf(at.one).add(each, null, 1000)
    const wants = Array.from({ length: 8 }, () => lease())
    const got = await together(at, 8, (store, n) => serversOf(store).claim([server.name], wants[n] ?? lease()))
    expect(got.flat()).toEqual([server.name])
    const winner = wants[got.findIndex(({ length }) => length === 1)] ?? expect.fail()
    const next = lease({ leaseMs: 0 })
    expect(await serversOf(at.other).claim([server.name, other.name, fresh('server')], next)).toEqual([other.name])
    await serversOf(at.other).release(winner.owner)
    expect(await serversOf(at.other).find(server.name)).toMatchObject({ owner: null, ownerUrl: null, isHeld: false })
    expect(await serversOf(at.other).claim([server.name], next)).toEqual([server.name])
    // Its lease has run out already.
    expect(await serversOf(at.one).find(server.name)).toMatchObject({ owner: next.owner, isHeld: false })
    expect(await serversOf(at.one).claim([server.name], winner)).toEqual([server.name])
  })

  test('an owner prolongs what it has still, and what it tells is kept until it tells something else', async () => {
    const [kept, lost] = [definition(), definition()]
    const mine = lease({ leaseMs: 0 })
    for (const each of [kept, lost]) await serversOf(at.one).add(each, mine, 1000)
    expect(await serversOf(at.other).claim([lost.name], lease())).toEqual([lost.name])
    const report = (name: string, n: number) => ({ name, info: JSON.stringify({ n, odd: '\0 \ud800 "票"' }), sessionId: `ssn_${n}` })
    const reports = [report(kept.name, 1), report(lost.name, 1), report(fresh('server'), 1)]
    expect(await serversOf(at.one).renew(mine.owner, LONG_MS, reports)).toEqual([kept.name])
    const { info, sessionId } = report('', 1)
    expect(await serversOf(at.other).find(kept.name)).toMatchObject({ isHeld: true, info, sessionId })
    expect(await serversOf(at.other).find(lost.name)).toMatchObject({ info: null, sessionId: null })
    await serversOf(at.one).renew(mine.owner, LONG_MS, [{ name: kept.name, info: null, sessionId: null }])
    expect(await serversOf(at.other).find(kept.name)).toMatchObject({ info, sessionId })
    expect(await serversOf(at.one).renew(mine.owner, LONG_MS, [])).toEqual([])
  })

  test('what the settings name replaces the definition of that name, and who has it keeps it; a stale seal replaces nothing', async () => {
    const [server, mine] = [definition(), lease()]
    await serversOf(at.one).add(server, mine, 1000)
    const configured = definition(server.name)
    await serversOf(at.other).configure(configured)
    expect(await serversOf(at.one).find(server.name)).toMatchObject({ ...configured, isConfigured: true, owner: mine.owner, isHeld: true })
    const after = { sealed: fresh('sealed'), kekId: 'kek_2' }
    expect(await serversOf(at.one).reseal(server.name, server.sealed, after)).toBe(false)
    expect(await serversOf(at.one).reseal(server.name, configured.sealed, after)).toBe(true)
    expect(await serversOf(at.other).find(server.name)).toMatchObject(after)
  })
}
