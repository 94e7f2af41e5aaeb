import { expect, test } from 'vitest'
import type { Stores } from '../../exam.ts'
import { active, against, change, times, told } from '../../parts.ts'

export function watchingCases(at: Stores): void {
  test('who watches a session hears of its events, whichever store wrote them, until it leaves', async () => {
    const sessions = await Promise.all(times(6).map(() => active(at.one)))
    for (const watching of [at.one, at.other]) {
      const heard = new Map(sessions.map(({ id }) => [id, Promise.withResolvers<void>()]))
      const leave = sessions.map(({ id }) => watching.events.watch(id, () => heard.get(id)?.resolve()))
      await Promise.all(sessions.map(({ id }) => change(at.one, id, { type: 'touched' }, { events: [told(1)] })))
      await Promise.all([...heard.values()].map(({ promise }) => promise))
      for (const off of leave) off()
    }
    const [left, watched] = sessions
    if (left === undefined || watched === undefined) return expect.fail()
    let calls = 0
    at.one.events.watch(left.id, () => calls++)()
    const more = Promise.withResolvers<void>()
    const off = at.one.events.watch(watched.id, more.resolve)
    await change(at.one, left.id, { type: 'touched' }, { events: [told(2)] })
    await change(at.other, watched.id, { type: 'touched' }, { events: [told(2)] })
    await more.promise
    off()
    expect(calls).toBe(0)
  })

  test('a watcher finds, when it is called, what it is called for', async () => {
    await against(at, async (mine, theirs) => {
      const { id } = await active(mine)
      const all = Promise.withResolvers<void>()
      const off = mine.events.watch(id, () => {
        void mine.events.last(id).then((last) => (last === 5 ? all.resolve() : undefined), all.reject)
      })
      for (const n of times(5)) await change(n % 2 === 0 ? theirs : mine, id, { type: 'touched' }, { events: [told(n)] })
      await all.promise
      off()
    })
  })
}
