import { once } from 'node:events'
import { LinesClientFrame } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { attachLines, type Lines } from '../src/stream/lines.ts'
import { dataplaneTo, LineServer } from './fixture/line-server.ts'

const NOWHERE = { httpBaseUrl: 'http://127.0.0.1:1/v1', wsBaseUrl: 'ws://127.0.0.1:1/v1', mode: 'relay' } as const

const all = async (lines: Lines): Promise<string[]> => {
  const got: string[] = []
  for await (const line of lines) got.push(line)
  return got
}

test('[2-65] an agent that does not come back ends the lines after the window, also where both ways are tried', async () => {
  await using server = await LineServer.start()
  const dialled: string[] = []
  class Dialled extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols)
      dialled.push(url)
    }
  }
  const accepted = server.accept('r1')
  const lines = await attachLines(dataplaneTo(server.way, NOWHERE, { WebSocket: Dialled }), 'p', {})
  ;(await accepted).send('one')
  const rest = all(lines)
  await server[Symbol.asyncDispose]()
  await expect(rest).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
  expect(dialled.length).toBeLessThan(20)
})

test('[2-65] a process that has ended while the connection was lost: its last lines still come', async () => {
  await using server = await LineServer.start()
  const first = server.accept('r1')
  const lines = await attachLines(dataplaneTo(server.way, undefined, { reconnectWindowMs: 20_000 }), 'p', {})
  const rest = all(lines)
  const second = server.accept('r1', 4)
  const ws = await first
  ws.send('one')
  // When it is back, and says that the process has ended, the client was just refused.
  server.record = { status: 'exited', attached: false }
  server.refusal = 503
  const asked = server.asked()
  ws.once('pong', () => ws.terminate()).ping()
  await asked
  server.refusal = undefined
  const again = await second
  again.send('two')
  again.close(1000)
  expect(await rest).toEqual(['one', 'two'])
  expect(server.urls.at(-1)).toMatch(/\/p\/ws\?takeover=true&run=r1&stdout_offset=4$/)
})

test('[2-65] one whose last lines are not kept any more is told as an error, not as an end like any other', async () => {
  await using server = await LineServer.start()
  const accepted = server.accept('r1')
  const lines = await attachLines(dataplaneTo(server.way, undefined, { reconnectWindowMs: 20_000 }), 'p', {})
  const rest = all(lines)
  server.record = { status: 'exited', attached: false }
  server.refusal = 409
  ;(await accepted).terminate()
  await expect(rest).rejects.toMatchObject({ code: 'PROCESS_NOT_RUNNING' })
})

test('[2-68] of a long line that a lost connection took along the rest goes in messages that are not too long', async () => {
  await using server = await LineServer.start()
  const first = server.accept('r1')
  const lines = await attachLines(dataplaneTo(server.way), 'p', {})
  const line = 'äb'.repeat(1024 * 1024)
  const second = server.accept('r1', 0, 5)
  await lines.send(line)
  ;(await first).terminate()
  const ws = await second
  const whole = Buffer.from(`${line}\n`).subarray(5)
  const parts: Buffer[] = []
  while (Buffer.concat(parts).length < whole.length) {
    const [message] = (await once(ws, 'message')) as [Buffer]
    expect(message.length).toBeLessThan(2 * 1024 * 1024)
    const frame = LinesClientFrame.parse(JSON.parse(message.toString()))
    if (frame.type === 'stdin') parts.push(Buffer.from(frame.data, 'base64'))
  }
  expect(Buffer.concat(parts).equals(whole)).toBe(true)
  lines.detach()
})

test('[2-64] who leaves while a token is on its way keeps no lease', async () => {
  await using server = await LineServer.start()
  const token = Promise.withResolvers<string>()
  const gone = Promise.withResolvers<void>()
  class Dialled extends WebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols)
      this.addEventListener('close', () => gone.resolve())
    }
  }
  const plane = dataplaneTo(server.way, undefined, { WebSocket: Dialled })
  const leaving = new AbortController()
  const lines = attachLines({ ...plane, token: { ...plane.token, current: () => token.promise } }, 'p', { signal: leaving.signal })
  leaving.abort(new Error('left'))
  await expect(lines).rejects.toThrow('left')
  token.resolve('a.b.c')
  await gone.promise
})
