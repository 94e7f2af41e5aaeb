import { inspect } from 'node:util'
import { BoxofficeError } from '@boxoffice/protocol'
import { pino } from 'pino'
import { afterEach, expect, test } from 'vitest'
import { createSessionSecrets, type SessionSecrets } from '../../../src/egress/secrets/session-secrets.ts'

const opened: SessionSecrets[] = []
afterEach(() => {
  for (const secrets of opened.splice(0)) secrets.close()
})

/** A broker of one session, and the secrets of that. `values` may change at any time. */
function start(values: Record<string, string>, { everyMs = 3_600_000 } = {}) {
  const asked: string[][] = []
  const lines: string[] = []
  let clock = 0
  const waiting: (() => void)[] = []
  const broker = { refuses: undefined as BoxofficeError | undefined, hold: undefined as Promise<void> | undefined }
  const secrets = createSessionSecrets({
    async fetch(names) {
      asked.push([...names])
      for (const wake of waiting.splice(0)) wake()
      await broker.hold
      if (broker.refuses !== undefined) throw broker.refuses
      return Object.fromEntries(names.flatMap((name) => (name in values ? [[name, { value: values[name] ?? '', version: 1 }]] : [])))
    },
    log: pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) }),
    now: () => clock,
    everyMs,
  })
  opened.push(secrets)
  return {
    secrets,
    asked,
    lines,
    broker,
    pass(ms: number) {
      clock += ms
    },
    /** Resolves when the broker has been asked so often. */
    async askedTimes(count: number) {
      while (asked.length < count) await new Promise<void>((resolve) => waiting.push(resolve))
    },
  }
}

const away = () => new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker cannot be reached')

test('wanted values are there, others are not, and no more are asked for', async () => {
  const { secrets, asked } = start({ a: '1', b: '2', c: '3' })
  expect(secrets.get('a')).toBeUndefined()
  await secrets.want(['a', 'nowhere'])
  expect(['a', 'b', 'nowhere'].map(secrets.get)).toEqual(['1', undefined, undefined])
  await secrets.want(new Set(['nowhere', 'a']))
  expect(asked).toEqual([['a', 'nowhere']])
  await secrets.want(['b'])
  expect(['a', 'b'].map(secrets.get)).toEqual([undefined, '2'])
  await secrets.want([])
  expect(secrets.get('b')).toBeUndefined()
  await secrets.want(['b'])
  expect([secrets.get('b'), asked.length]).toEqual(['2', 3])
})

test('many names are asked for in parts', async () => {
  const names = Array.from({ length: 300 }, (_, n) => `s${n}`)
  const { secrets, asked } = start(Object.fromEntries(names.map((name) => [name, `of ${name}`])))
  await secrets.want(names)
  expect(asked.map(({ length }) => length)).toEqual([128, 128, 44])
  expect(names.map(secrets.get)).toEqual(names.map((name) => `of ${name}`))
})

test('a value that has changed or gone is so after a refresh, or once it is old', async () => {
  const values: Record<string, string> = { a: '1', b: '1' }
  const { secrets, pass, asked } = start(values, { everyMs: 60_000 })
  await secrets.want(['a', 'b'])
  values.a = '2'
  delete values.b
  await secrets.want(['a', 'b'])
  expect(secrets.get('a')).toBe('1')
  await secrets.refresh()
  expect(['a', 'b'].map(secrets.get)).toEqual(['2', undefined])
  values.a = '3'
  pass(59_999)
  await secrets.want(['a', 'b'])
  expect([secrets.get('a'), asked.length]).toEqual(['2', 2])
  pass(1)
  await secrets.want(['a', 'b'])
  expect([secrets.get('a'), asked.length]).toEqual(['3', 3])
})

test('while values are used they are asked for again by themselves', async () => {
  const values = { a: '1' }
  const { secrets, askedTimes } = start(values, { everyMs: 5 })
  await secrets.want(['a'])
  values.a = '2'
  secrets.get('a')
  await askedTimes(2)
  await expect.poll(() => secrets.get('a')).toBe('2')
})

test('while nobody uses them the broker is not asked', async () => {
  const idle = start({ a: '1' }, { everyMs: 5 })
  const used = start({ a: '1' }, { everyMs: 5 })
  await idle.secrets.want(['a'])
  await used.secrets.want(['a'])
  for (let n = 2; n < 8; n++) {
    used.secrets.get('a')
    await used.askedTimes(n)
  }
  expect(idle.asked).toHaveLength(1)
})

test('a broker that is away leaves the last values, is not asked each time, and is asked again later', async () => {
  const values = { a: '1' }
  const { secrets, broker, pass, asked } = start(values)
  await secrets.want(['a'])
  broker.refuses = away()
  await secrets.refresh()
  expect(secrets.get('a')).toBe('1')
  for (let n = 0; n < 10; n++) await secrets.want(['a'])
  expect(asked).toHaveLength(2)
  broker.refuses = undefined
  values.a = '2'
  pass(5000)
  await secrets.want(['a'])
  expect([secrets.get('a'), asked.length]).toEqual(['2', 3])
})

test('a broker that has never answered is not waited for each time either', async () => {
  const { secrets, broker, pass, asked } = start({ a: '1' })
  broker.refuses = away()
  for (let n = 0; n < 10; n++) await secrets.want(['a'])
  expect([secrets.get('a'), asked.length]).toEqual([undefined, 1])
  broker.refuses = undefined
  pass(5000)
  await secrets.want(['a'])
  expect(secrets.get('a')).toBe('1')
})

test('a broker that says nothing holds up nobody who has a value', async () => {
  const { secrets, broker, pass } = start({ a: '1' }, { everyMs: 60_000 })
  await secrets.want(['a'])
  const { promise, resolve } = Promise.withResolvers<void>()
  broker.hold = promise
  pass(60_000)
  await secrets.want(['a'])
  expect(secrets.get('a')).toBe('1')
  resolve()
})

test('a session that the broker does not have on this agent loses its values', async () => {
  const { secrets, broker } = start({ a: '1' })
  await secrets.want(['a'])
  broker.refuses = new BoxofficeError('BINDING_NOT_FOUND', 'no such session')
  await secrets.refresh()
  expect(secrets.get('a')).toBeUndefined()
})

test('those who want at once share one request; other names meanwhile are asked for after it', async () => {
  const { secrets, broker, asked } = start({ a: '1', b: '2' })
  const { promise, resolve } = Promise.withResolvers<void>()
  broker.hold = promise
  const all = [secrets.want(['a']), secrets.want(['a']), secrets.refresh(), secrets.want(['a', 'b'])]
  resolve()
  await Promise.all(all)
  expect(asked).toEqual([['a'], ['a', 'b']])
  expect(['a', 'b'].map(secrets.get)).toEqual(['1', '2'])
})

test('after close nothing is left, nor comes with a late answer', async () => {
  const { secrets, broker, asked } = start({ a: '1' })
  await secrets.want(['a'])
  const { promise, resolve } = Promise.withResolvers<void>()
  broker.hold = promise
  const late = secrets.refresh()
  secrets.close()
  resolve()
  await late
  await secrets.want(['a'])
  expect([secrets.get('a'), asked.length]).toEqual([undefined, 2])
})

test('no value is in a log line, nor shown by whoever prints the object', async () => {
  const { secrets, broker, lines } = start({ a: 'CANARY' })
  await secrets.want(['a'])
  expect(secrets.get('a')).toBe('CANARY')
  broker.refuses = away()
  await secrets.refresh()
  expect(lines.length).toBeGreaterThan(0)
  expect([...lines, inspect(secrets, { depth: 9, showHidden: true }), JSON.stringify(secrets)].join()).not.toContain('CANARY')
})
