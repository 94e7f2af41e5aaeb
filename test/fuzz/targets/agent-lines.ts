import assert from 'node:assert/strict'
import { LineSplitter } from '../../../apps/agent/src/ws/processes/line-splitter.ts'
import { TextStream } from '../../../apps/agent/src/ws/text.ts'
import { mutated } from '../mutate.ts'
import { Random } from '../random.ts'
import type { FuzzTarget } from '../target.ts'

const WORDS = ['\n', '\r\n', '\n\n', 'ü', '😀', '€', Buffer.of(0xf0, 0x9f), Buffer.of(0xff), Buffer.of(0xed, 0xa0, 0x80), '\0']

const lines = (chunks: readonly Buffer[]): { lines: string[]; bytes: number } => {
  const seen = { lines: [] as string[], bytes: 0 }
  const splitter = new LineSplitter((line, bytes) => {
    seen.lines.push(line.toString())
    seen.bytes += bytes
  })
  for (const chunk of chunks) assert(splitter.push(chunk))
  splitter.end()
  return seen
}

const text = (chunks: readonly Buffer[]): { data: string; bytes: number; lossy: boolean } => {
  const stream = new TextStream()
  const seen = { data: '', bytes: 0, lossy: false }
  for (const chunk of [...chunks.map((one) => stream.push(one)), stream.end()]) {
    if (chunk === undefined) continue
    seen.data += chunk.data
    seen.bytes += chunk.bytes
    seen.lossy ||= chunk.lossy
  }
  return seen
}

/** What a process writes, as lines and as text: split anywhere it is the same, and no byte is lost or counted twice. */
export default {
  generate: (random) => mutated(random, Buffer.from('{"id":1}\nüber 😀\n\r\nthe last'), WORDS),
  check(input) {
    const pieces = Random.of(input).cut(input)
    const whole = lines([input])
    assert.deepEqual(lines(pieces), whole)
    assert.equal(whole.bytes, input.length)
    const split = input.toString('latin1').split('\n')
    if (split.at(-1) === '') split.pop()
    assert.deepEqual(
      whole.lines,
      split.map((line) => Buffer.from(line, 'latin1').toString()),
    )
    const written = text(pieces)
    assert.equal(written.bytes, input.length)
    const isText = Buffer.from(input.toString()).equals(input)
    assert.equal(written.lossy, !isText)
    if (isText) assert.equal(written.data, input.toString())
    return isText
  },
} satisfies FuzzTarget
