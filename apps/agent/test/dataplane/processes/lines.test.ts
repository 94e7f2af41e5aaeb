import { type ManagedProcess, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { eventually } from '../../support/eventually.ts'
import { LineClient } from '../../support/line-client.ts'

let plane: TestDataplane
beforeEach(async () => {
  plane = await TestDataplane.start()
})
afterEach(() => plane[Symbol.asyncDispose]())

const start = async (script: string, id = 'p'): Promise<ManagedProcess> => {
  const response = await plane.post('/processes', { process_id: id, command: '/bin/sh', args: ['-c', script] })
  expect(response.status).toBe(201)
  return (await response.json()) as ManagedProcess
}
const get = (id = 'p'): Promise<ManagedProcess> => plane.process(id)

describe('the socket of a managed process', () => {
  test('carries lines to stdin and from stdout, and closes with 1000 at the end of the process', { tags: ['2-43'] }, async () => {
    await start('cat')
    const client = await LineClient.open(plane, 'p')
    client.send('hello')
    client.send('two\nthree')
    client.send('four\n')
    expect(await client.got(4)).toEqual(['hello', 'two', 'three', 'four'])
    expect(await get()).toMatchObject({ attached: true })
    await plane.fetch('/processes/p', { method: 'DELETE' })
    expect(await client.closed).toMatchObject({ code: 1000 })
  })

  test('brings what came before the first attach, and a last line without its newline', { tags: ['2-43'] }, async () => {
    await start('echo banner; read x; printf "bye %s" "$x"')
    const client = await LineClient.open(plane, 'p')
    client.send('you')
    expect(await client.closed).toMatchObject({ code: 1000 })
    expect(client.lines).toEqual(['banner', 'bye you'])
  })

  test('accepts and echoes the subprotocol mcp', { tags: ['2-67'] }, async () => {
    await start('cat')
    const client = await LineClient.open(plane, 'p', { protocols: ['mcp'] })
    expect(client.ws.protocol).toBe('mcp')
    client.send('{"jsonrpc":"2.0","method":"ping","id":1}')
    expect(await client.got(1)).toEqual(['{"jsonrpc":"2.0","method":"ping","id":1}'])
    expect(client.frames).toEqual([])
    client.ws.send(Buffer.of(1), { binary: true })
    expect(await client.closed).toMatchObject({ code: 1003 })
  })

  test('a JSON line of 1 MiB and one of almost 16 MiB come back whole, every character intact', { tags: ['2-68', '4-135'] }, async () => {
    await start('exec cat')
    const client = await LineClient.open(plane, 'p', { maxPayload: 17 * 1024 * 1024 })
    const lines = [1024 * 1024, 15 * 1024 * 1024].map((size) => JSON.stringify({ text: 'äöü€😀'.repeat(size / 14) }))
    for (const line of lines) client.send(line)
    const back = await client.got(2)
    expect(back[0] === lines[0]).toBe(true)
    expect(back[1] === lines[1]).toBe(true)
    await client.close()
  })

  test('a longer line closes 1009, in either direction, and the process goes on', { tags: ['2-68', '4-135'] }, async () => {
    await start('read go; head -c 17000000 /dev/zero | tr "\\0" x; echo; exec cat', 'out')
    const reading = await LineClient.open(plane, 'out', { maxPayload: 20 * 1024 * 1024, protocols: [SUBPROTOCOL_LINES] })
    reading.send('go')
    expect(await reading.closed).toMatchObject({ code: 1009 })
    expect(reading.frames.at(-1)).toMatchObject({ type: 'error', error: { code: 'PAYLOAD_TOO_LARGE' } })
    await start('exec cat', 'in')
    const writing = await LineClient.open(plane, 'in')
    writing.send('x'.repeat(16 * 1024 * 1024 + 2000))
    expect(await writing.closed).toMatchObject({ code: 1009 })
    for (const id of ['out', 'in']) expect(await get(id)).toMatchObject({ status: 'running' })
  })

  test('what is not UTF-8 breaks neither socket nor line', { tags: ['2-15', '2-68'] }, async () => {
    await start("printf 'a\\377b\\n'; echo good; exec cat")
    const client = await LineClient.open(plane, 'p')
    expect(await client.got(2)).toEqual(['a\ufffdb', 'good'])
  })

  test('is one alone, unless the second takes over', { tags: ['2-64'] }, async () => {
    await start('exec cat')
    const first = await LineClient.open(plane, 'p', { protocols: [SUBPROTOCOL_LINES] })
    expect(await LineClient.refused(plane, 'p')).toEqual({ status: 409, code: 'ALREADY_ATTACHED' })
    first.send('still mine')
    await first.got(1)
    const second = await LineClient.open(plane, 'p', { query: '?takeover=true' })
    expect(await first.closed).toEqual({ code: 4409, reason: 'TAKEN_OVER' })
    expect(first.frames.at(-1)).toMatchObject({ type: 'error', error: { code: 'TAKEN_OVER' } })
    second.send('now mine')
    expect(await second.got(1)).toEqual(['now mine'])
    await second.leave()
    const third = await LineClient.open(plane, 'p')
    third.send('free again')
    expect(await third.got(1)).toEqual(['free again'])
  })

  test('of many at once one gets in', { tags: ['2-64'] }, async () => {
    await start('exec cat')
    const clients = Array.from({ length: 8 }, () => new LineClient(plane, 'p'))
    const results = await Promise.all(
      clients.map(
        ({ ws }) =>
          new Promise<string>((resolve) => ws.on('open', () => resolve('open')).on('unexpected-response', () => resolve('refused'))),
      ),
    )
    expect(results.filter((result) => result === 'open')).toHaveLength(1)
  })

  test('a missing process is 404, a stopped one 409, both before the upgrade', { tags: ['2-66'] }, async () => {
    expect(await LineClient.refused(plane, 'nowhere')).toEqual({ status: 404, code: 'PROCESS_NOT_FOUND' })
    await start('exit 0')
    await eventually(async () => expect(await get()).toMatchObject({ status: 'exited' }))
    expect(await LineClient.refused(plane, 'p')).toEqual({ status: 409, code: 'PROCESS_NOT_RUNNING' })
  })

  test('needs its token before the upgrade: by header or subprotocol, never by query or frame', { tags: ['2-66'] }, async () => {
    await start('exec cat')
    expect(await LineClient.refused(plane, 'p', { token: null })).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
    expect(await LineClient.refused(plane, 'p', { token: null, query: `?token=${plane.token}` })).toEqual({
      status: 401,
      code: 'UNAUTHENTICATED',
    })
    const browser = await LineClient.open(plane, 'p', { token: null, protocols: ['mcp', `bearer.${plane.token}`] })
    expect(browser.ws.protocol).toBe('mcp')
    browser.send('hello')
    expect(await browser.got(1)).toEqual(['hello'])
  })

  test('lines are activity, and the socket is an attachment', { tags: ['2-69'] }, async () => {
    await start('exec cat')
    const client = await LineClient.open(plane, 'p')
    expect(plane.sandbox.activity.snapshot().attached).toBe(1)
    await eventually(() => expect(plane.sandbox.activity.snapshot().idle_ms).toBeGreaterThan(2000))
    const sent = performance.now()
    client.send('x')
    await client.got(1)
    expect(plane.sandbox.activity.snapshot().idle_ms).toBeLessThanOrEqual(performance.now() - sent)
    await client.close()
    await eventually(() => expect(plane.sandbox.activity.snapshot().attached).toBe(0))
  })

  test('ends when its session does', { tags: ['C-28', 'C-30'] }, async () => {
    await start('exec cat')
    const client = await LineClient.open(plane, 'p', { protocols: [SUBPROTOCOL_LINES] })
    const until = Date.now() / 1000 + 600
    plane.revocations.apply({ sessions: [{ session_id: plane.sandbox.sessionId, reason: 'released', until }], tokens: [] })
    expect(await client.closed).toMatchObject({ code: 4410, reason: 'SESSION_RELEASED' })
  })

  test('the end of the sandbox is 4503', { tags: ['C-37'] }, async () => {
    await start('exec cat')
    const client = await LineClient.open(plane, 'p')
    await plane.sandbox.kill()
    plane.sandbox.end({ lost: true, reason: 'oom' })
    expect(await client.closed).toMatchObject({ code: 4503 })
  })
})
