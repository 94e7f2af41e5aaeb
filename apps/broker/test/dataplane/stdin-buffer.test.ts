import { expect, test } from 'vitest'
import { StdinBuffer } from '../../src/dataplane/stdin-buffer.ts'

const text = (pieces: readonly Uint8Array[]): string => Buffer.concat(pieces).toString()

test('another connection gets what the process lacks, none of it twice', () => {
  const stdin = new StdinBuffer()
  stdin.add(Buffer.from('abc'))
  stdin.add(Buffer.from('def'))
  expect(stdin.unconfirmedBytes).toBe(6)
  stdin.confirm(2)
  expect(stdin.unconfirmedBytes).toBe(6)
  expect(text(stdin.missingFrom(2))).toBe('cdef')
  expect(text(stdin.missingFrom(5))).toBe('f')
  expect(stdin.unconfirmedBytes).toBe(3)
  expect(stdin.missingFrom(6)).toEqual([])
})

test('bytes that others wrote before count', () => {
  const stdin = new StdinBuffer()
  stdin.add(Buffer.from('xyz'))
  stdin.begin(10)
  expect(text(stdin.missingFrom(10))).toBe('xyz')
  stdin.confirm(13)
  expect(stdin.unconfirmedBytes).toBe(0)
})

test('a long write goes in pieces', () => {
  const pieces = new StdinBuffer().add(Buffer.alloc(600_000))
  expect(pieces.map(({ length }) => length)).toEqual([262_144, 262_144, 75_712])
})
