import { isUtf8 } from 'node:buffer'
import { expect, test } from 'vitest'
import { OutputText } from '../../src/exec/output-text.ts'

const join = (text: OutputText): string => JSON.parse(`"${[...text.encoded()].join('')}"`) as string

/** The same numbers in each run. */
const numbers = (): (() => number) => {
  let seed = 7
  return () => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return seed >>> 8
  }
}

const cut = (bytes: Buffer, next: () => number): Buffer[] => {
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + (next() % 120_000)
    pieces.push(bytes.subarray(at, at + length))
    at += length
  }
  return pieces
}

test('the text of the pieces is that of the whole, however it is cut and whatever the bytes', () => {
  const next = numbers()
  const characters = [...'aü€😀\0"\\\n\u2028\ufeff']
  const valid = Buffer.from(Array.from({ length: 120_000 }, () => characters[next() % characters.length]).join(''))
  const random = Buffer.from(Array.from({ length: 300_000 }, () => next() % 256))
  // Each byte is valid but for the last character.
  const open = Buffer.concat([valid, Buffer.from([0xf0, 0x9f, 0x98])])
  for (const bytes of [valid, random, open, Buffer.alloc(200_000), Buffer.concat([Buffer.from('\ufeff'), valid])]) {
    for (let round = 0; round < 5; round++) {
      const pieces = cut(bytes, next)
      const text = new OutputText(pieces, 'utf8')
      expect(join(text) === bytes.toString()).toBe(true)
      expect(text.lossy).toBe(!isUtf8(bytes))
      expect(text.bytes).toBe(bytes.length)
      const base64 = new OutputText(pieces, 'base64')
      expect(join(base64) === bytes.toString('base64')).toBe(true)
      expect(base64.lossy).toBe(false)
    }
  }
})
