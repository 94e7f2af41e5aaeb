import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { encodeAck, encodeDataHeader, encodeFrame, FRAME, FrameDecoder, WireViolation } from '../../../apps/agent/src/supervisor/wire.ts'
import { mutated } from '../mutate.ts'
import { Random } from '../random.ts'
import type { FuzzTarget } from '../target.ts'

const VECTORS = new URL('../../../packages/supervisor/vectors/wire.json', import.meta.url)
const { frames } = JSON.parse(readFileSync(VECTORS, 'utf8')) as { frames: { frame_hex: string }[] }
const FRAMES = frames.map(({ frame_hex }) => Buffer.from(frame_hex, 'hex'))
const WORDS = [...Object.values(FRAME).map((type) => Buffer.of(1, 0, 0, 0, type)), Buffer.of(0xff, 0xff, 0xff, 0xff), Buffer.alloc(4), '{}']

/** Data of one stream as one event, however it came in pieces. */
type Event = { type: number; bytes: Buffer[] } | { type: number; payload: Record<string, unknown> }

const decode = (chunks: readonly Buffer[]): { events: Event[]; refused: boolean } => {
  const events: Event[] = []
  const decoder = new FrameDecoder({
    data(type, piece) {
      const last = events.at(-1)
      if (last !== undefined && last.type === type && 'bytes' in last && piece.length > 0 && last.bytes.length > 0)
        last.bytes.push(Buffer.from(piece))
      else events.push({ type, bytes: piece.length > 0 ? [Buffer.from(piece)] : [] })
    },
    frame: (type, payload) => events.push({ type, payload }),
  })
  try {
    for (const chunk of chunks) {
      const lent = Buffer.from(chunk)
      decoder.push(lent)
      // Connections read into it again.
      lent.fill(0xaa)
    }
    return { events, refused: false }
  } catch (thrown) {
    assert(thrown instanceof WireViolation, thrown as Error)
    return { events, refused: true }
  }
}

const joined = (events: readonly Event[]) =>
  events.map((event) => ('bytes' in event ? { ...event, bytes: Buffer.concat(event.bytes) } : event))

const encode = (events: readonly Event[]): Buffer =>
  Buffer.concat(
    events.map((event) => {
      if (!('bytes' in event)) {
        if (event.type === FRAME.ack) return encodeAck(event.payload as Parameters<typeof encodeAck>[0])
        return event.type === FRAME.end ? Buffer.of(1, 0, 0, 0, FRAME.end) : encodeFrame(event.type, event.payload)
      }
      const bytes = Buffer.concat(event.bytes)
      return Buffer.concat([encodeDataHeader(event.type as 0 | 1 | 2, bytes.length), bytes])
    }),
  )

/** What a supervisor sends to the agent: split anywhere it is the same, no more data than came, and its encoding means the same. */
export default {
  generate: (random) => mutated(random, Buffer.concat(Array.from({ length: 1 + random.below(4) }, () => random.of(FRAMES))), WORDS),
  check(input) {
    const { events, refused } = decode([input])
    const whole = { events: joined(events), refused }
    const pieces = decode(Random.of(input).cut(input))
    assert.deepEqual({ events: joined(pieces.events), refused: pieces.refused }, whole)
    assert(whole.events.reduce((sum, event) => sum + ('bytes' in event ? event.bytes.length : 0), 0) <= input.length)
    assert.deepEqual(joined(decode([encode(events)]).events), whole.events)
    return !refused
  },
} satisfies FuzzTarget
