import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { duplexPair } from 'node:stream'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readShared } from '../../src/fast-io/shared-reads.ts'
import { until } from '../support/processes.ts'

let server: Server
let path: string
beforeEach(async () => {
  path = join(tmpdir(), `bxo-shared-${process.pid}-${Math.random().toString(36).slice(2)}.sock`)
  server = createServer({ pauseOnConnect: true }).listen(path)
  await once(server, 'listening')
})
afterEach(() => void server.close())

type Accepted = { peer: Socket; socket: Socket; chunks: Buffer[]; text: () => string }

const accept = async (): Promise<Accepted> => {
  const peer = connect(path)
  const [accepted] = (await once(server, 'connection')) as [Socket]
  const chunks: Buffer[] = []
  const socket = readShared(accepted, (chunk) => void chunks.push(Buffer.from(chunk)))
  return { peer, socket, chunks, text: () => Buffer.concat(chunks).toString() }
}

test('each connection gives its own bytes and takes what is written; at the end both sides close and the server can', async () => {
  const all = [await accept(), await accept(), await accept()]
  for (let round = 0; round < 200; round++) for (const [at, { peer }] of all.entries()) peer.write(`${at}:${'x'.repeat(round)};`)
  const expected = (at: number): string => Array.from({ length: 200 }, (_, round) => `${at}:${'x'.repeat(round)};`).join('')
  await until('all is there', () => all.every(({ text }, at) => text().length === expected(at).length))
  for (const [at, { text, socket, peer }] of all.entries()) {
    expect(text()).toBe(expected(at))
    socket.write('answer')
    expect(String((await once(peer, 'data'))[0])).toBe('answer')
  }
  const closed = all.map(({ socket, peer }, at) => {
    if (at === 0) peer.end()
    else if (at === 1) peer.destroy()
    else socket.destroy()
    return Promise.all([once(socket, 'close'), once(peer, 'close')])
  })
  await Promise.all(closed)
  server.close()
  await once(server, 'close')
})

test('all read into one memory', async () => {
  const memories = new Set<ArrayBufferLike>()
  for (let i = 0; i < 3; i++) {
    const peer = connect(path)
    const [accepted] = (await once(server, 'connection')) as [Socket]
    const read = new Promise<void>((resolve) => {
      readShared(accepted, (chunk) => {
        memories.add(chunk.buffer)
        resolve()
      })
    })
    peer.write('x')
    await read
    peer.destroy()
  }
  expect(memories.size).toBe(1)
})

test('one that is paused is not read, and loses nothing', async () => {
  const [held, free] = [await accept(), await accept()]
  held.peer.write('first')
  await until('the first piece is there', () => held.text() === 'first')
  held.socket.pause()
  expect(held.socket.isPaused()).toBe(true)
  const bytes = Buffer.alloc(3_000_000, 'abcdefg')
  held.peer.write(bytes)
  for (let i = 0; i < 50; i++) {
    free.peer.write(`${i} `)
    await until('the other one is read', () => free.text().endsWith(`${i} `))
  }
  expect(held.text()).toBe('first')
  held.socket.resume()
  await until('the rest is there', () => held.text().length === bytes.length + 5)
  expect(Buffer.concat(held.chunks).subarray(5).equals(bytes)).toBe(true)
  for (const { socket } of [held, free]) socket.destroy()
})

test('one that pauses at each chunk gets all of it, then the end', async () => {
  const peer = connect(path)
  const [accepted] = (await once(server, 'connection')) as [Socket]
  const chunks: Buffer[] = []
  const socket = readShared(accepted, (chunk) => {
    chunks.push(Buffer.from(chunk))
    socket.pause()
    setImmediate(() => socket.resume())
  })
  const bytes = Buffer.alloc(1_000_003, 'hijklmnop')
  peer.end(bytes)
  await once(socket, 'close')
  expect(chunks.length).toBeGreaterThan(5)
  expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
})

test('an end that comes while it is paused is heard afterwards; one whose peer is reset closes', async () => {
  const paused = await accept()
  paused.socket.pause()
  paused.peer.end('last words')
  await once(paused.peer, 'finish')
  paused.socket.resume()
  await once(paused.socket, 'close')
  expect(paused.text()).toBe('last words')

  const reset = await accept()
  const error = once(reset.socket, 'error')
  const closed = new Promise((resolve) => reset.socket.on('close', resolve))
  // What the other side has not read when it closes makes its end a reset.
  reset.socket.write('never read')
  reset.peer.pause()
  reset.peer.destroy()
  expect(await error).toMatchObject([{ code: 'ECONNRESET' }])
  await closed
})

test('what stands on nothing that could be handed over is read as any stream', async () => {
  const [peer, side] = duplexPair()
  const chunks: Buffer[] = []
  const socket = readShared(side as unknown as Socket, (chunk) => void chunks.push(chunk))
  expect(socket).toBe(side)
  peer.end('all of it')
  await once(side, 'end')
  expect(String(Buffer.concat(chunks))).toBe('all of it')
})
