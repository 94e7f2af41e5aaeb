import { expect, test } from 'vitest'
import { linesOf } from '../src/stream/text-lines.ts'

async function* chunksOf(...chunks: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield typeof chunk === 'string' ? new TextEncoder().encode(chunk) : chunk
}
const read = (...chunks: (string | Uint8Array)[]): Promise<string[]> => Array.fromAsync(linesOf(chunksOf(...chunks)))

test.for<[name: string, chunks: (string | Uint8Array)[], lines: string[]]>([
  ['nothing', [], []],
  ['lines over chunks', ['on', 'e\ntw', 'o\n', 'three'], ['one', 'two', 'three']],
  ['empty lines', ['\n\na\n', '\n'], ['', '', 'a', '']],
  ['a return before the line end, also in another chunk', ['a\r\nb\r', '\nc\rd\n'], ['a', 'b', 'c\rd']],
  ['a character over chunks', [new Uint8Array([0xe2, 0x82]), new Uint8Array([0xac, 0x0a])], ['€']],
  ['bytes that are no UTF-8', [new Uint8Array([0x61, 0xff, 0x0a])], ['a\ufffd']],
  ['a character that is cut off at the end', [new Uint8Array([0x61, 0xe2])], ['a\ufffd']],
])('%s', async ([, chunks, lines]) => {
  expect(await read(...chunks)).toEqual(lines)
})

test('output without a line end comes in parts, and whole', async () => {
  const parts = await read(...Array.from({ length: 20 }, () => 'x'.repeat(256 * 1024)))
  expect(parts.length).toBeGreaterThan(1)
  expect(parts.join('')).toBe('x'.repeat(5 * 1024 * 1024))
})
