import { expect, test } from 'vitest'
import { BOUNDS, boundedList, boundedText } from '../src/tools/bounds.ts'
import { wholeCharacters } from '../src/tools/whole-characters.ts'

test('a text is cut at the bound, and no character in half', () => {
  const most = 'a'.repeat(BOUNDS.textCharacters)
  expect(boundedText(most)).toEqual({ text: most, truncated: false })
  expect(boundedText(`${most}b`)).toEqual({ text: most, truncated: true })
  expect(boundedText(`${most.slice(1)}😀`)).toEqual({ text: most.slice(1), truncated: true })
})

test('of a list no more is asked for than the bound', async () => {
  let asked = 0
  const endless = async function* () {
    for (;;) yield asked++
  }
  const { entries, truncated } = await boundedList(endless())
  expect([entries.length, truncated, asked]).toEqual([BOUNDS.entries, true, BOUNDS.entries + 1])
})

test.each([
  ['', ''],
  ['abc', 'abc'],
  ['aä', 'aä'],
  ['a\u00c3', 'a'],
  ['€', '€'],
  ['x\u00e2\u0082', 'x'],
  ['x\u00f0\u009f\u0098', 'x'],
  ['😀', '😀'],
  ['a\u00ff', 'a'],
  ['a\u0080\u0080\u0080\u0080', 'a\u0080\u0080\u0080\u0080'],
])('the beginning of a character waits for its rest: %j', (given, kept) => {
  // A character below U+0100 that is no text of its own stands for its byte.
  const bytes = (text: string) => (/[\u0080-\u00ff]/.test(text) && !/[ä€😀]/u.test(text) ? Buffer.from(text, 'latin1') : Buffer.from(text))
  expect(Buffer.from(wholeCharacters(new Uint8Array(bytes(given))))).toEqual(bytes(kept))
})
