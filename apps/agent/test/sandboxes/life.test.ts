import { describe, expect, test } from 'vitest'
import { afterEvent, isAwake, type Life, type LifeEvent, reportedState } from '../../src/sandboxes/live/life.ts'

const lives: { [Name in Life['name']]: Extract<Life, { name: Name }> } = {
  starting: { name: 'starting' },
  running: { name: 'running' },
  frozen: { name: 'frozen' },
  stopping: { name: 'stopping' },
  stopped: { name: 'stopped' },
  lost: { name: 'lost', reason: 'oom' },
}

const events = {
  started: { type: 'started' },
  adopted_running: { type: 'adopted', as: 'running' },
  adopted_frozen: { type: 'adopted', as: 'frozen' },
  adopted_stopped: { type: 'adopted', as: 'stopped' },
  frozen: { type: 'frozen' },
  stopping: { type: 'stopping' },
  stopped: { type: 'stopped' },
  woken: { type: 'woken' },
  lost: { type: 'lost', reason: 'the sandbox ended' },
} satisfies Record<string, LifeEvent>

/** Each row: an event, and what it makes of each state; `-` is refused. */
const TABLE = `
                     starting  running   frozen    stopping  stopped   lost
  started            running   -         -         -         -         -
  adopted_running    running   -         -         -         -         -
  adopted_frozen     frozen    -         -         -         -         -
  adopted_stopped    stopped   -         -         -         -         -
  frozen             -         frozen    -         -         -         -
  stopping           -         stopping  stopping  -         -         -
  stopped            -         -         -         stopped   -         -
  woken              -         -         running   -         running   -
  lost               lost      lost      lost      -         lost      -
`

const [head = '', ...rows] = TABLE.trim().split('\n')
const names = head.trim().split(/\s+/) as Life['name'][]
const cells = rows.flatMap((row) => {
  const [event = '', ...after] = row.trim().split(/\s+/)
  return after.map((next, at) => ({ event, before: names[at] as Life['name'], next }))
})

describe('the life of a sandbox', () => {
  test('the table has each event in each state', () => {
    expect(new Set(cells.map(({ event, before }) => `${event}, ${before}`)).size).toBe(
      Object.keys(events).length * Object.keys(lives).length,
    )
    expect(new Set(cells.map(({ event }) => event))).toEqual(new Set(Object.keys(events)))
  })

  test.each(cells)('$event while $before: $next', ({ event, before, next }) => {
    const after = afterEvent(lives[before], events[event as keyof typeof events])
    expect(after?.name ?? '-').toBe(next)
  })

  test.each(cells)('$event while $before, which is ending: $next, and still ending', ({ event, before, next }) => {
    const after = afterEvent({ ...lives[before], ending: 'released' }, events[event as keyof typeof events])
    expect(after?.name ?? '-').toBe(next)
    if (after !== undefined) expect(after.ending).toBe('released')
  })

  test.each(Object.values(lives))('an end begins while $name, and the last cause counts', (life) => {
    const once = afterEvent(life, { type: 'ending', cause: 'idle' })
    expect(once).toEqual({ ...life, ending: 'idle' })
    expect(afterEvent(once as Life, { type: 'ending', cause: 'released' })).toEqual({ ...life, ending: 'released' })
  })

  test('a lost one says why', () => {
    expect(afterEvent(lives.running, events.lost)).toEqual({ name: 'lost', reason: 'the sandbox ended' })
  })

  test('one that stops is awake and is reported as running', () => {
    expect(Object.values(lives).filter(isAwake)).toEqual([lives.running, lives.stopping])
    expect(Object.values(lives).map(reportedState)).toEqual(['starting', 'running', 'frozen', 'running', 'stopped', 'lost'])
  })
})
