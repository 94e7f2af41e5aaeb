import { expect, test } from 'vitest'
import { type ResolvedPlaceholder, sentinelOf, swapPlaceholders } from '../../../src/egress/secrets/placeholder.ts'

let made = 0
const placeholder = (value: string | undefined): ResolvedPlaceholder => ({ sentinel: sentinelOf('sb_1', `TOKEN_${++made}`), value })
const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

test('a sentinel is letters and digits, the same for a variable of a sandbox, and another one for every other', () => {
  expect(sentinelOf('sb_1', 'A')).toMatch(/^[a-z0-9]{40}$/)
  expect(sentinelOf('sb_1', 'A')).toBe(sentinelOf('sb_1', 'A'))
  expect(new Set([sentinelOf('sb_1', 'A'), sentinelOf('sb_1', 'B'), sentinelOf('sb_2', 'A')]).size).toBe(3)
})

test('the value stands in place of its sentinel, as often as it is there, and nothing else changes', () => {
  const token = placeholder('ghp_$&$1real')
  const { sentinel } = token
  expect(swapPlaceholders([token])(`Bearer ${sentinel}`)).toBe('Bearer ghp_$&$1real')
  expect(swapPlaceholders([token])(`${sentinel},${sentinel}`)).toBe('ghp_$&$1real,ghp_$&$1real')
  expect(swapPlaceholders([token])('*/*')).toBe('*/*')
})

test('the credentials of Basic have the value, whatever bytes are around it', () => {
  const token = placeholder('päss\n:wörd')
  const { sentinel } = token
  const swap = swapPlaceholders([token])
  expect(swap(basic(`user:${sentinel}`))).toBe(basic('user:päss\n:wörd'))
  expect(swap(basic(`${sentinel}:`))).toBe(basic('päss\n:wörd:'))
  expect(swap(basic(`${sentinel}:`).replace('Basic', 'bAsIc '))).toBe(basic('päss\n:wörd:').replace('Basic', 'bAsIc '))
  const bytes = Buffer.concat([Buffer.from([0xff, 0x00, 0xfe]), Buffer.from(sentinel)])
  expect(swap(`Basic ${bytes.toString('base64')}`)).toBe(
    `Basic ${Buffer.concat([Buffer.from([0xff, 0x00, 0xfe]), Buffer.from('päss\n:wörd')]).toString('base64')}`,
  )
  // What has no sentinel keeps its spelling, also where another one would be the same credentials.
  for (const other of ['Basic dXNlcjpwYXNz', 'Basic dXNlcjpwYXN', 'Basic ', 'Basic =', 'Basicly']) expect(swap(other)).toBe(other)
})

test('a sentinel stays where its secret is not there, or its value would end the header', () => {
  for (const value of [undefined, 'a\r\nX-Injected: 1', 'a\nb', 'nul\0', 'ä']) {
    const token = placeholder(value)
    expect(swapPlaceholders([token])(token.sentinel)).toBe(token.sentinel)
  }
})

test('of several placeholders each has its own value, and a value that names another sentinel is left alone', () => {
  const second = placeholder('second-value')
  const first = placeholder(`first ${second.sentinel}`)
  const absent = placeholder(undefined)
  const text = `${first.sentinel} ${second.sentinel} ${absent.sentinel}`
  expect(swapPlaceholders([first, second, absent])(text)).toBe(`first ${second.sentinel} second-value ${absent.sentinel}`)
})
