import { expect, test } from 'vitest'
import { workspaceIdOf } from '../../../../../src/domain/scope.ts'
import type { EndedSession, Session } from '../../../../../src/domain/session.ts'
import type { Store } from '../../../../../src/store/store.ts'
import { newSession } from '../../../../support/crowd.ts'
import type { Stores } from '../../exam.ts'
import { after, against, change, create, fresh, madeBy, RELEASED, read, successor, times } from '../../parts.ts'

const KEPT = { type: 'released', keepWorkspace: true } as const
const idOf = ({ tenant, scope }: Session): string => workspaceIdOf(tenant, scope)

/** A session of the scope of `before` that has ended at `endedAt` and left its workspace with its agent. */
async function left(store: Store, before: Session | undefined, agentId: string, endedAt: number): Promise<EndedSession> {
  const fields = { agentId, createdAt: endedAt - 1 }
  const session = before === undefined ? newSession({ tenant: fresh('tenant'), ...fields }) : successor(before, fields)
  await create(store, session, { owner: before === undefined ? null : 'me' })
  await change(store, session.id, madeBy(session))
  return (await change(store, session.id, KEPT, { workspace: 'hold' }, endedAt)) as EndedSession
}

export function workspaceCases(at: Stores): void {
  test('[C-55] the agents that hold a workspace are named latest first, each once', async () => {
    const [a, b] = [fresh('agt'), fresh('agt')]
    const first = await left(at.one, undefined, a, 1000)
    const holders = () => at.other.workspaces.holders(idOf(first))
    expect(await holders()).toEqual([a])
    await left(at.one, first, b, 2000)
    expect(await holders()).toEqual([b, a])
    await left(at.other, first, a, 3000)
    expect(await holders()).toEqual([a, b])
    expect(await at.one.workspaces.holders(fresh('workspace'))).toEqual([])
  })

  test('[C-55] a forgotten one is unwanted wherever it is, until its agent has removed it or holds it again', async () => {
    const [a, b] = [fresh('agt'), fresh('agt')]
    const first = await left(at.one, undefined, a, 1000)
    const second = await left(at.one, first, b, 2000)
    const id = idOf(first)
    expect(await at.one.sessions.keptOf(first.tenant, first.scope)).toEqual([second.id, first.id])
    await change(at.other, second.id, { type: 'sandbox_lost', reason: 'x' }, { workspace: 'forget' })
    expect(await at.one.workspaces.holders(id)).toEqual([])
    expect([await at.one.workspaces.unwantedOn(a), await at.one.workspaces.unwantedOn(b)]).toEqual([[id], [id]])
    expect(await at.one.sessions.keptOf(first.tenant, first.scope)).toEqual([])
    expect(await read(at.one, first.id)).toMatchObject({ keepWorkspace: false })
    await at.other.workspaces.removed(id, a)
    expect([await at.one.workspaces.unwantedOn(a), await at.one.workspaces.unwantedOn(b)]).toEqual([[], [id]])
    await left(at.one, first, b, 3000)
    expect(await at.one.workspaces.unwantedOn(b)).toEqual([])
    await at.other.workspaces.removed(id, b)
    expect(await at.one.workspaces.holders(id)).toEqual([b])
  })

  test('[C-55] a late release does not take the workspace of the next session', async () => {
    const agentId = fresh('agt')
    const first = await left(at.one, undefined, agentId, 1000)
    const next = successor(first)
    await create(at.other, next, { owner: 'me' })
    await change(at.one, first.id, { type: 'sandbox_lost', reason: 'x' }, { workspace: 'forget' })
    expect(await at.other.workspaces.holders(idOf(first))).toEqual([agentId])
    expect(await at.other.sessions.keptOf(first.tenant, first.scope)).toEqual([first.id])
  })

  test('the latest 20 sessions that kept their workspace are named', async () => {
    const agentId = fresh('agt')
    let last: EndedSession | undefined
    const ids: string[] = []
    for (const n of times(22)) {
      last = await left(n % 2 === 0 ? at.one : at.other, last, agentId, 1000 + n)
      ids.unshift(last.id)
    }
    if (last === undefined) return expect.fail()
    const released = successor(last)
    await create(at.one, released, { owner: 'me' })
    await change(at.one, released.id, RELEASED)
    expect(await at.one.sessions.keptOf(last.tenant, last.scope)).toEqual(ids.slice(0, 20))
  })

  test('[C-55] what a new session finds of its workspace stays, also beside a late release', async () => {
    await against(at, async (mine, theirs) => {
      const agentId = fresh('agt')
      const first = await left(mine, undefined, agentId, 1000)
      const next = successor(first)
      const expired = await read(mine, first.id)
      const [, found] = await Promise.all([
        mine.sessions.save(expired, after(expired, { type: 'tick', suspend: [] }), { workspace: 'forget' }),
        create(theirs, next, { owner: 'me' }).then(() => theirs.workspaces.holders(idOf(next))),
      ])
      expect(await mine.workspaces.holders(idOf(next))).toEqual(found)
      expect(await mine.workspaces.unwantedOn(agentId)).toEqual(found.length === 0 ? [idOf(next)] : [])
    })
  })
}
