import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { SocketWriter } from '../../src/ws/writer.ts'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

/** A writer, and the raw end of its connection behind the handshake. */
const open = async (): Promise<{ writer: SocketWriter; raw: Socket }> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  const writer = new Promise<SocketWriter>((resolve) =>
    server.on('upgrade', (request, socket, head) =>
      sockets.handleUpgrade(request, socket, head, (ws) => resolve(new SocketWriter(ws, socket))),
    ),
  )
  const raw = connect((server.address() as AddressInfo).port, '127.0.0.1')
  closers.push(() => {
    raw.destroy()
    server.close()
  })
  const key = randomBytes(16).toString('base64')
  raw.write(
    `GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`,
  )
  const [answer] = (await once(raw, 'data')) as [Buffer]
  raw.pause() // until somebody reads on
  expect(answer.toString()).toMatch(/^HTTP\/1.1 101 .*\r\n\r\n$/s)
  return { writer: await writer, raw }
}

/** Reads messages as strictly as a browser: a length in the shortest form, nothing masked, nothing in parts. */
const read = async function* (raw: Socket): AsyncGenerator<{ text: boolean; payload: Buffer }> {
  let held = Buffer.alloc(0)
  for await (const piece of raw) {
    held = Buffer.concat([held, piece])
    for (;;) {
      const long = held[1] === 126
      if (held.length < (long ? 4 : 2)) break
      const length = long ? held.readUInt16BE(2) : (held[1] as number)
      expect(length).toBeLessThan(long ? 65_536 : 126)
      expect(length).toBeGreaterThanOrEqual(long ? 126 : 0)
      const end = (long ? 4 : 2) + length
      if (held.length < end) break
      expect([0x81, 0x82]).toContain(held[0])
      yield { text: held[0] === 0x81, payload: held.subarray(long ? 4 : 2, end) }
      held = held.subarray(end)
    }
  }
}

const sha = (parts: Buffer[]): string => createHash('sha256').update(Buffer.concat(parts)).digest('hex')

const SIZES = [
  1, 120, 124, 125, 16_383, 16_384, 37_000, 65_530, 65_531, 65_532, 65_533, 65_534, 65_535, 65_536, 131_061, 131_062, 131_066, 131_190,
  1_048_576, 3,
]

test('pieces of every size arrive whole and in order, in messages that a strict reader takes, each of one stream', async () => {
  const { writer, raw } = await open()
  const sent: Record<1 | 2, Buffer[]> = { 1: [], 2: [] }
  const flushed = [0, 0, 0]
  for (const [at, size] of [...SIZES, ...SIZES.toReversed()].entries()) {
    const stream = at % 5 === 4 ? 2 : 1
    const piece = randomBytes(size)
    sent[stream].push(Buffer.from(piece))
    writer.binary(stream, piece, (bytes) => {
      flushed[stream] = (flushed[stream] as number) + bytes
    })
    // As the next read would.
    piece.fill(0)
    // Now several pieces of one read, now the next one some turns later.
    for (let turns = (at % 3) * (at % 4); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
  }
  writer.json({ type: 'end' })
  const got: Record<1 | 2, Buffer[]> = { 1: [], 2: [] }
  for await (const { text, payload } of read(raw)) {
    if (text) break
    got[payload[0] as 1 | 2].push(payload.subarray(1))
  }
  for (const stream of [1, 2] as const) expect(sha(got[stream])).toBe(sha(sent[stream]))
  expect(flushed).toEqual([0, Buffer.concat(sent[1]).length, Buffer.concat(sent[2]).length])
  expect(writer.backlog).toBe(0)
})

test('bulk in small pieces goes in messages that fill one read of 64 KiB with their head [C-36], and its rest by itself', async () => {
  const { writer, raw } = await open()
  const piece = randomBytes(37_000)
  const sizes: number[] = []
  const reading = (async () => {
    for await (const { payload } of read(raw)) {
      sizes.push(payload.length)
      if (sizes.reduce((sum, size) => sum + size - 1, 0) === 10 * piece.length) return
    }
  })()
  for (let i = 0; i < 10; i++) {
    writer.binary(1, piece, () => {})
    await new Promise((resolve) => setImmediate(resolve))
  }
  await reading
  const full = Math.floor((10 * piece.length) / 65_531)
  expect(sizes.slice(0, full)).toEqual(Array.from({ length: full }, () => 65_532))
  expect(sizes).toHaveLength(full + 1)
})
