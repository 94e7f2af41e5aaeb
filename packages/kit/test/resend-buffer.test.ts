import { expect, test } from 'vitest'
import { ResendBuffer } from '../src/bounds/resend-buffer.ts'

const text = (pieces: Uint8Array[]): string => pieces.map((piece) => new TextDecoder().decode(piece)).join('')

test('after a lost connection it sends what the process lacks, from the middle of a line on', () => {
  const buffer = new ResendBuffer()
  buffer.begin(0, 0)
  for (const line of ['one', 'two\n', 'three']) buffer.sent(line)
  expect(buffer.unconfirmedBytes).toBe(14)
  buffer.confirmed(4)
  expect(buffer.unconfirmedBytes).toBe(10)
  expect(text(buffer.resume(0, 6))).toBe('o\nthree\n')
  expect(text(buffer.resume(0, 14))).toBe('')
  expect(buffer.unconfirmedBytes).toBe(0)
})

test('offsets go on from where others have written before', () => {
  const buffer = new ResendBuffer()
  buffer.begin(100, 1000)
  buffer.sent('é')
  expect(buffer.got('é')).toBe(false)
  expect(buffer.received).toBe(103)
  expect(text(buffer.resume(103, 1000))).toBe('é\n')
  expect(text(buffer.resume(103, 1003))).toBe('')
})

test('it asks for a report every 128 KiB, counted from the last', () => {
  const buffer = new ResendBuffer()
  buffer.begin(0, 0)
  const line = 'x'.repeat(64 * 1024 - 1)
  expect([1, 2, 3, 4].map(() => buffer.got(line))).toEqual([false, true, false, true])
})

test('a long line goes in pieces of at most 1 MiB', () => {
  const buffer = new ResendBuffer()
  buffer.begin(0, 0)
  buffer.sent('x'.repeat(2.5 * 1024 * 1024 - 1))
  expect(buffer.resume(0, 0).map(({ length }) => length)).toEqual([1024 * 1024, 1024 * 1024, 512 * 1024])
})
