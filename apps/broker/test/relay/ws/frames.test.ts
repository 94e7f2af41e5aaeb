import { describe, expect, test } from 'vitest'
import { authTokenOf, mayBeAuth, readEarlyFrame } from '../../../src/relay/ws/client-frames.ts'
import { clientFrame, closePayload, FrameCutter, OPCODE } from '../../../src/relay/ws/frames.ts'

/** As a server sends it. */
const serverFrame = (opcode: number, payload: Buffer | string, fin = true): Buffer => {
  const bytes = Buffer.from(payload)
  const head = bytes.length < 126 ? Buffer.alloc(2) : bytes.length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10)
  head[0] = (fin ? 0x80 : 0) | opcode
  head[1] = head.length === 2 ? bytes.length : head.length === 4 ? 126 : 127
  if (head.length === 4) head.writeUInt16BE(bytes.length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(bytes.length), 2)
  return Buffer.concat([head, bytes])
}

const STREAM = [
  serverFrame(OPCODE.text, '{"type":"ready"}'),
  serverFrame(OPCODE.binary, Buffer.alloc(300, 1)),
  serverFrame(OPCODE.ping, 'are you there'),
  serverFrame(OPCODE.text, 'in two ', false),
  serverFrame(OPCODE.pong, ''),
  serverFrame(0, 'pieces'),
  serverFrame(OPCODE.binary, ''),
  serverFrame(OPCODE.binary, Buffer.alloc(70_000, 2)),
  serverFrame(OPCODE.close, closePayload(4410, 'SESSION_RELEASED')),
]
const DATA = Buffer.concat(STREAM.filter((frame) => ((frame[0] as number) & 0x0f) < OPCODE.close))

const cut = (chunks: readonly Buffer[]) => {
  const out: (Buffer | string)[] = []
  const cutter = new FrameCutter({
    data: (pieces) => out.push(Buffer.concat(pieces.map(({ bytes }) => bytes))),
    control: (opcode, payload) => out.push(`${opcode}:${payload.toString('latin1')}`),
  })
  for (const chunk of chunks) cutter.push(chunk)
  return out
}

const CONTROL = ['9:are you there', '10:', `8:${closePayload(4410, 'SESSION_RELEASED').toString('latin1')}`]

describe('what an agent sends', () => {
  test('passes as it came, cut at any byte; control frames are seen', () => {
    const whole = Buffer.concat(STREAM)
    // Every cut of the first frames; the long one at some places, for there it is all the same.
    for (let at = 0; at <= whole.length; at += at < 800 || at > whole.length - 40 ? 1 : 4999) {
      const out = cut([whole.subarray(0, at), whole.subarray(at)])
      expect(Buffer.concat(out.filter((one) => typeof one !== 'string')).equals(DATA)).toBe(true)
      expect(out.filter((one) => typeof one === 'string')).toEqual(CONTROL)
    }
  })

  test('comes byte by byte', () => {
    const whole = Buffer.concat(STREAM.slice(0, 7))
    const out = cut([...whole].map((byte) => Buffer.of(byte)))
    expect(out.filter((one) => typeof one !== 'string').map(String)).toHaveLength(5)
    expect(Buffer.concat(out.filter((one) => typeof one !== 'string'))).toEqual(DATA.subarray(0, DATA.length - 70_010))
  })

  test('is held until a frame has ended, so that another may follow', () => {
    const frame = serverFrame(OPCODE.binary, Buffer.alloc(1000))
    expect(cut([frame.subarray(0, 999)])).toEqual([])
    expect(cut([Buffer.concat([frame, frame.subarray(0, 1)])])).toEqual([frame])
  })

  test.each([
    ['a masked frame', Buffer.of(0x82, 0x81, 0, 0, 0, 0, 1)],
    ['a reserved bit', Buffer.of(0xc2, 0x00)],
    ['an unknown opcode', Buffer.of(0x8b, 0x00)],
    ['a long ping', Buffer.of(0x89, 126, 0, 200)],
    ['a ping in pieces', Buffer.of(0x09, 0x00)],
    ['a frame beyond all limits', Buffer.of(0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0)],
  ])('is given up with %s', (_name, bytes) => {
    expect(() => cut([bytes])).toThrow()
  })
})

test.each([0, 1, 125, 126, 65_535, 65_536])('a frame of %i bytes for an agent is masked and whole', (length) => {
  const payload = Buffer.from(Array.from({ length }, (_, i) => i & 0xff))
  const frame = clientFrame(OPCODE.binary, payload)
  const head = length < 126 ? 2 : length < 65_536 ? 4 : 10
  expect([frame[0], (frame[1] as number) & 0x80, frame.length]).toEqual([0x82, 0x80, head + 4 + length])
  const mask = frame.subarray(head, head + 4)
  const unmasked = frame.subarray(head + 4).map((byte, i) => byte ^ (mask[i & 3] as number))
  expect(payload.equals(unmasked)).toBe(true)
})

describe('which messages of a client are looked into', () => {
  test.each([
    ['{"type":"auth","token":"t"}', 't'],
    ['{"token":"t","type":"\\u0061uth"}', 't'],
    ['{"\\u0074ype":"auth","token":"t"}', 't'],
    ['{"type":"stdin","type":"auth","token":"t"}', 't'],
    [' {\n"type" : "auth" , "token":"\\u0074" }', 't'],
  ])('%s has a token', (text, token) => {
    expect([mayBeAuth(Buffer.from(text)), authTokenOf(Buffer.from(text))]).toEqual([true, token])
  })

  test.each([
    '{"type":"stdin","data":"\\"auth\\""}',
    '{"type":"stdin","data":"\\u0003"}',
    '["auth"]',
    '{"type":"auth","type":"ping"}',
    '"auth',
  ])('%s has none', (text) => {
    expect(authTokenOf(Buffer.from(text))).toBeUndefined()
  })

  test('data is not parsed', () => {
    expect(mayBeAuth(Buffer.from(JSON.stringify({ type: 'stdin', data: 'auth me'.repeat(1000) })))).toBe(false)
  })

  test('an auth frame without a token is refused, not passed on', () => {
    expect(() => authTokenOf(Buffer.from('{"type":"auth","token":["t"]}'))).toThrow('auth: token')
    expect(() => readEarlyFrame(Buffer.from('[]'))).toThrow('must be a JSON object')
  })
})
