import type { AgentInstructions, SandboxReport } from '@boxoffice/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ReportedSandboxes } from '../../src/broker-link/reported-sandboxes.ts'

type Response = Pick<AgentInstructions, 'decisions' | 'revocations'>

const reportOf = (id: string, fields: Partial<SandboxReport> = {}): SandboxReport => ({
  sandbox_id: id,
  session_id: `ssn_${id}`,
  state: 'running',
  generation: 1,
  profile_hash: 'p',
  activity: { running: 0, attached: 0, idle_ms: 5000 },
  reason: null,
  ...fields,
})
const busy = { running: 1, attached: 0, idle_ms: 0 }
const response = (decisions: Response['decisions'] = [], ended: string[] = []): Response => ({
  decisions,
  revocations: { sessions: ended.map((id) => ({ session_id: id, reason: 'released', until: 1 })), tokens: [] },
})

/** `tell` reports what has changed and is answered; it gives the ids. Time passes by `time.ms` only, so idle ones grow idle by the test. */
function open() {
  const time = { ms: 100_000 }
  const reported = new ReportedSandboxes(() => time.ms)
  const tell = (present: SandboxReport[], answer = response()): string[] => {
    const sandboxes = reported.changed(present)
    reported.taken({ sandboxes, partial: true }, answer)
    return sandboxes.map(({ sandbox_id: id, state }) => (state === 'lost' ? `${id} lost` : id))
  }
  return { time, reported, tell }
}

test('a sandbox is told when it is new and when its state, incarnation or use changes; one that stays as it is costs nothing', () => {
  const { time, tell } = open()
  const [a, b] = [reportOf('a'), reportOf('b')]
  expect(tell([a, b])).toEqual(['a', 'b'])
  expect(tell([a, b])).toEqual([])
  expect(tell([a, { ...b, state: 'frozen' }])).toEqual(['b'])
  expect(
    tell([
      { ...a, generation: 2 },
      { ...b, state: 'frozen' },
    ]),
  ).toEqual(['a'])
  const still = [{ ...a, generation: 2 }]
  expect(tell([...still, b])).toEqual(['b'])
  // 2 s later it has been idle for 2 s more, so nobody has used it.
  time.ms += 2000
  const idle = { ...b, activity: { ...b.activity, idle_ms: 7000 } }
  expect(tell([reportOf('a', { generation: 2, activity: { ...a.activity, idle_ms: 7000 } }), idle])).toEqual([])
  expect(tell([reportOf('a', { generation: 2, activity: { ...a.activity, idle_ms: 1000 } }), idle])).toEqual(['a'])
})

test('a busy sandbox is told when it becomes busy, each 10 s, and when it is no more', () => {
  const { time, tell } = open()
  const a = reportOf('a', { activity: busy })
  expect(tell([reportOf('a')])).toEqual(['a'])
  expect(tell([a])).toEqual(['a'])
  time.ms += 9999
  expect(tell([a])).toEqual([])
  time.ms += 1
  expect(tell([a])).toEqual(['a'])
  expect(tell([a])).toEqual([])
  expect(tell([reportOf('a', { activity: { running: 0, attached: 0, idle_ms: 0 } })])).toEqual(['a'])
})

test('sandboxes of the pool are told when a session gets them; one that is gone is told by its name, once', () => {
  const { tell } = open()
  const pooled = reportOf('a', { session_id: null })
  expect(tell([pooled])).toEqual([])
  expect(tell([])).toEqual([])
  expect(tell([reportOf('a')])).toEqual(['a'])
  expect(tell([])).toEqual(['a lost'])
  expect(tell([])).toEqual([])
  expect(tell([reportOf('a')])).toEqual(['a'])
  expect(tell([pooled])).toEqual(['a lost'])
  expect(tell([pooled])).toEqual([])
})

test('a report that the broker has not answered tells nothing', () => {
  const { reported, tell } = open()
  const a = reportOf('a')
  expect(reported.changed([a])).toEqual([a])
  expect(tell([a])).toEqual(['a'])
  expect(reported.changed([])).toHaveLength(1)
  expect(tell([])).toEqual(['a lost'])
})

test('what the broker wants to hear again, what it has ended and what could not be removed is told with the next report', () => {
  const { tell } = open()
  const all = [reportOf('a'), reportOf('b'), reportOf('c')]
  tell(all, response([{ sandbox_id: 'a', action: 'keep', again: true }]))
  expect(tell(all)).toEqual(['a'])
  expect(tell(all, response([], ['ssn_b', 'ssn_of_another']))).toEqual([])
  expect(tell(all, response([{ sandbox_id: 'b', action: 'destroy' }]))).toEqual(['b'])
  expect(tell(all)).toEqual(['b'])
  // Removed on the broker's order: it knows.
  expect(tell(all, response([{ sandbox_id: 'c', action: 'destroy' }], ['ssn_c']))).toEqual([])
  expect(tell(all, response([{ sandbox_id: 'c', action: 'destroy' }]))).toEqual(['c'])
  expect(tell([reportOf('a'), reportOf('b')])).toEqual([])
})

test('a report of all sandboxes takes the place of what was told before', () => {
  const { reported, tell } = open()
  tell([reportOf('a'), reportOf('b')])
  reported.taken({ sandboxes: [reportOf('b')], partial: false }, response())
  expect(tell([reportOf('b')])).toEqual([])
  expect(tell([reportOf('a'), reportOf('b')])).toEqual(['a'])
})

test('whatever becomes of sandboxes and of reports, the broker has them as they are after each report that it has answered', () => {
  const IDS = ['a', 'b', 'c', 'd']
  const step = fc.record({
    id: fc.constantFrom(...IDS),
    to: fc.constantFrom('running', 'frozen', 'stopped', 'gone', 'pool', 'busy', 'made anew'),
    arrives: fc.constantFrom('yes', 'no', 'whole'),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const { time, reported } = open()
      const present = new Map<string, SandboxReport>()
      const broker = new Map<string, string>()
      const view = (report: SandboxReport) => `${report.state} ${report.generation} ${report.activity.running}`
      for (const { id, to, arrives } of steps) {
        time.ms += 500
        const before = present.get(id)
        if (to === 'gone') present.delete(id)
        else if (to === 'pool') present.set(id, before ?? reportOf(id, { session_id: null }))
        else if (to === 'busy') present.set(id, reportOf(id, { activity: busy }))
        else if (to === 'made anew') present.set(id, reportOf(id, { generation: (before?.generation ?? 1) + 1 }))
        else present.set(id, reportOf(id, { state: to as SandboxReport['state'] }))
        if (arrives === 'no') {
          reported.changed([...present.values()])
          continue
        }
        const partial = arrives === 'yes'
        const sandboxes = partial ? reported.changed([...present.values()]) : [...present.values()]
        if (!partial) broker.clear()
        for (const report of sandboxes)
          if (report.state === 'lost') broker.delete(report.sandbox_id)
          else if (report.session_id !== null) broker.set(report.sandbox_id, view(report))
        reported.taken({ sandboxes, partial }, response())
        const there = [...present.values()].filter(({ session_id: session }) => session !== null)
        expect(Object.fromEntries(broker)).toEqual(Object.fromEntries(there.map((report) => [report.sandbox_id, view(report)])))
      }
    }),
  )
})
