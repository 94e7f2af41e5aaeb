import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { encodeAck, encodeDataHeader, encodeFrame, FRAME, FrameDecoder, WireViolation } from '../../src/supervisor/wire.ts'

type Vector = {
  name: string
  type: number
  payload_hex: string
  frame_hex: string
  json?: object
  ack?: { channel: number; stdout: number; stderr: number }
}
type Vectors = { frames: Vector[]; bad: { name: string; hex: string }[] }

const vectors: Vectors = JSON.parse(readFileSync(new URL('../../../../packages/supervisor/vectors/wire.json', import.meta.url), 'utf8'))

type Decoded = { type: number; data?: string; payload?: unknown }

/** Decodes what arrives in reads of a given size, each of which overwrites the one before. */
const decode = (bytes: Buffer, readBytes: number): Decoded[] => {
  const decoded: Decoded[] = []
  const decoder = new FrameDecoder({
    data: (type, piece) => {
      const last = decoded.at(-1)
      if (last?.type === type && last.data !== undefined) last.data += piece.toString('hex')
      else decoded.push({ type, data: piece.toString('hex') })
    },
    frame: (type, payload) => decoded.push({ type, payload }),
  })
  const memory = Buffer.alloc(Math.min(readBytes, bytes.length))
  for (let at = 0; at < bytes.length; at += readBytes) {
    decoder.push(memory.subarray(0, bytes.copy(memory, 0, at, at + readBytes)))
    memory.fill(0xff)
  }
  return decoded
}

const encode = ({ type, json, ack, payload_hex }: Vector): Buffer => {
  if (json !== undefined) return encodeFrame(type, json)
  if (ack !== undefined) return encodeAck(ack)
  const payload = Buffer.from(payload_hex, 'hex')
  return Buffer.concat([encodeDataHeader(type as 0 | 1 | 2, payload.length), payload])
}

describe('WIRE.md, the vectors of both sides', () => {
  test.each(vectors.frames)('encodes $name', (vector) => {
    expect(encode(vector).toString('hex')).toBe(vector.frame_hex)
  })

  test.each(vectors.frames)('decodes $name, whatever the reads', (vector) => {
    const expected =
      vector.type <= FRAME.stderr
        ? { type: vector.type, data: vector.payload_hex }
        : { type: vector.type, payload: vector.json ?? vector.ack }
    for (const readBytes of [1, 3, 5, 64, 1 << 20]) expect(decode(Buffer.from(vector.frame_hex, 'hex'), readBytes)).toEqual([expected])
  })

  test.each(vectors.bad)('refuses $name', ({ hex }) => {
    for (const readBytes of [1, 1 << 20]) expect(() => decode(Buffer.from(hex, 'hex'), readBytes)).toThrow(WireViolation)
  })

  test.each([
    [2n ** 53n - 1n, 2 ** 53 - 1],
    [2n ** 53n, 'refused'],
    [2n ** 64n - 1n, 'refused'],
  ])('an offset of %i in an acknowledgement is exact or refused', (offset, seen) => {
    const frame = encodeAck({ channel: 1, stdout: 0, stderr: 0 })
    frame.writeBigUInt64LE(offset, frame.length - 8)
    const acknowledged: unknown[] = []
    const decoder = new FrameDecoder({ data: () => expect.unreachable(), frame: (_, payload) => acknowledged.push(payload.stderr) })
    if (seen === 'refused') expect(() => decoder.push(frame)).toThrow(WireViolation)
    else decoder.push(frame)
    expect(acknowledged).toEqual(seen === 'refused' ? [] : [seen])
  })

  test('hands data on before its frame is complete, as views on what was read', () => {
    const pieces: Buffer[] = []
    const decoder = new FrameDecoder({ data: (_type, piece) => pieces.push(piece), frame: () => {} })
    const first = Buffer.concat([encodeDataHeader(FRAME.stdout, 10), Buffer.from('abc')])
    decoder.push(first)
    expect(pieces.map(String)).toEqual(['abc'])
    expect(pieces[0]?.buffer).toBe(first.buffer)
    decoder.push(Buffer.from('defghij'))
    expect(Buffer.concat(pieces).toString()).toBe('abcdefghij')
  })

  test('random bytes end in a violation or in frames, never in anything else', () => {
    let seed = 42
    const random = (): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff
      return seed
    }
    for (let round = 0; round < 2000; round++) {
      const bytes = Buffer.from(Array.from({ length: random() % 64 }, () => random() % 256))
      if (round % 2 === 0 && bytes.length > 3) bytes.writeUInt32LE(random() % 40, 0)
      try {
        decode(bytes, 1 + (random() % 16))
      } catch (error) {
        expect(error).toBeInstanceOf(WireViolation)
      }
    }
  })
})
