import { expect, test } from 'vitest'
import { Utf8Chunks } from '../../../src/surfaces/facade/utf8-chunks.ts'

test('a character that is split comes whole, at the offset of its first byte', () => {
  const whole = Buffer.from('aü漢😀z')
  for (let cut = 1; cut < whole.length; cut++) {
    const chunks = new Utf8Chunks()
    const parts = [chunks.push(whole.subarray(0, cut), 0), chunks.push(whole.subarray(cut), cut)].filter((part) => part !== undefined)
    expect(parts.map(({ data }) => data).join('')).toBe('aü漢😀z')
    for (const { data, offset } of parts) expect(whole.toString('utf8', offset, offset + Buffer.byteLength(data))).toBe(data)
    expect(chunks.end(whole.length)).toBeUndefined()
  }
})

test('what a stream ends with is told also where it is no character', () => {
  const chunks = new Utf8Chunks()
  expect(chunks.push(Buffer.from([0x61, 0xf0, 0x9f]), 10)).toEqual({ data: 'a', offset: 10 })
  expect(chunks.end(13)).toEqual({ data: '\ufffd', offset: 11 })
})
