import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type LinesServerFrame, type ManagedProcess, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { eventually } from '../../support/eventually.ts'
import { LineClient } from '../../support/line-client.ts'

let plane: TestDataplane
beforeEach(async () => {
  plane = await TestDataplane.start()
})
afterEach(() => plane[Symbol.asyncDispose]())

const start = async (script: string, rest: Record<string, unknown> = {}): Promise<ManagedProcess> => {
  const response = await plane.post('/processes', { process_id: 'p', command: '/bin/sh', args: ['-c', script], ...rest })
  expect(response.status).toBe(201)
  return (await response.json()) as ManagedProcess
}
const get = (id = 'p'): Promise<ManagedProcess> => plane.process(id)
const numbers = (from: number, to: number): string[] => Array.from({ length: to - from + 1 }, (_, i) => String(from + i))
const readyOf = ({ frames }: LineClient): LinesServerFrame & { type: 'ready' } => {
  const [first] = frames
  if (first?.type !== 'ready') throw new Error(`no ready: ${JSON.stringify(frames)}`)
  return first
}
const withControl = async (id: string, query = ''): Promise<LineClient> => {
  const client = await LineClient.open(plane, id, { protocols: [SUBPROTOCOL_LINES], query })
  await client.until(() => client.frames.length > 0)
  return client
}

describe('a client that comes back to a managed process', () => {
  test('the process outlives it; the next one goes on with the first line that nobody got', { tags: ['2-65'] }, async () => {
    await start('while read x; do while [ ! -e "$x" ]; do sleep 0.05; done; echo "got $x"; done')
    const answer = (name: string): Promise<void> => writeFile(join(plane.sandbox.workspacePath, name), '')
    await answer('one')
    const first = await LineClient.open(plane, 'p')
    first.send('one')
    expect(await first.got(1)).toEqual(['got one'])
    first.send('two')
    await first.leave()
    // Its answer comes when nobody is there.
    await answer('two')
    const second = await LineClient.open(plane, 'p')
    second.send('three')
    await answer('three')
    await second.got(2)
    expect([...first.lines, ...second.lines]).toEqual(['got one', 'got two', 'got three'])
  })

  test('nobody attached: the process is not held up, and the next client is told what it missed', { tags: ['4.5'] }, async () => {
    await start('seq 1 400000; echo done > finished; exec cat')
    await eventually(async () => expect(await readFile(join(plane.sandbox.workspacePath, 'finished'), 'utf8')).toBe('done\n'))
    const client = await withControl('p')
    const { stdout } = readyOf(client)
    expect(stdout.gap).toEqual({ from: 0, to: stdout.offset })
    client.send('end')
    await client.until(() => client.lines.at(-1) === 'end')
    const [first] = client.lines
    expect(client.lines.slice(0, -1)).toEqual(numbers(Number(first), 400_000))
  })

  test('a client that reads slowly gets every line once', { tags: ['3.4'] }, async () => {
    await start('read go; seq 1 300000; exec cat')
    const client = await withControl('p')
    client.send('go')
    for (let i = 0; i < 5; i++) {
      client.ws.pause()
      await new Promise((resolve) => setTimeout(resolve, 50))
      client.ws.resume()
      await client.got((i + 1) * 20_000)
    }
    expect(await client.got(300_000)).toEqual(numbers(1, 300_000))
  })

  test('a client whose connection drops goes on at its offset: no line twice, none left out', {
    tags: ['3.4'],
    timeout: 120_000,
  }, async () => {
    await start('read go; seq 1 400000; exec cat')
    const lines: string[] = []
    let run: string | undefined
    let offset = 0
    for (let round = 0; lines.length < 400_000; round++) {
      const client = await withControl('p', run === undefined ? '' : `?takeover=true&run=${run}&stdout_offset=${offset}`)
      run = readyOf(client).run
      if (round === 0) client.send('go')
      await client.got(Math.min(70_000, 400_000 - lines.length))
      client.ws.terminate()
      await client.closed
      offset = client.resend.received
      lines.push(...client.lines)
      expect(round).toBeLessThan(20)
    }
    expect(lines).toEqual(numbers(1, 400_000))
  })

  test('what a process still wrote while its client was away is for that client, with the end of it', { tags: ['3.4'] }, async () => {
    const script = 'echo one; while [ ! -e go ]; do sleep 0.05; done; rm go; seq 2 1000; printf last'
    for (const restart of ['never', 'always']) {
      await start(script, { restart })
      const client = await withControl('p')
      const { run } = readyOf(client)
      await client.got(1)
      client.ws.terminate()
      await client.closed
      await writeFile(join(plane.sandbox.workspacePath, 'go'), '')
      await eventually(async () => expect(await get()).toMatchObject(restart === 'never' ? { status: 'exited' } : { restarts: 1 }))
      const back = await withControl('p', `?takeover=true&run=${run}&stdout_offset=${client.resend.received}`)
      expect(await back.closed).toMatchObject({ code: 1000 })
      expect([readyOf(back).run, ...back.lines]).toEqual([run, ...numbers(2, 1000), 'last'])
    }
    await plane.fetch('/processes/p', { method: 'DELETE' })
  })

  test('an offset or run that is not there is refused before the upgrade', { tags: ['3.4'] }, async () => {
    await start('exec cat')
    for (const run of ['p.p.0', 'p.other.0', 'x'])
      expect(await LineClient.refused(plane, 'p', { query: `?run=${run}&stdout_offset=0` })).toEqual({
        status: 409,
        code: 'PROCESS_NOT_RUNNING',
      })
    expect(await LineClient.refused(plane, 'p', { query: '?stdout_offset=5' })).toEqual({ status: 400, code: 'INVALID_REQUEST' })
    expect(await LineClient.refused(plane, 'p', { query: '?run=p.p.0' })).toEqual({ status: 409, code: 'PROCESS_NOT_RUNNING' })
    expect(await LineClient.refused(plane, 'p', { query: '?takeover=perhaps' })).toEqual({ status: 400, code: 'INVALID_REQUEST' })
    // The lease is free.
    const client = await LineClient.open(plane, 'p')
    client.send('x')
    expect(await client.got(1)).toEqual(['x'])
  })

  test('control frames say how much of stdin the process has, and take the rest of a torn line', { tags: ['3.4'] }, async () => {
    await start('exec cat')
    const client = await withControl('p')
    client.send('hello')
    await client.got(1)
    client.control({ type: 'ping', stdout_offset: 6 })
    await client.until(() => client.frames.some(({ type }) => type === 'pong'))
    expect(client.frames.at(-1)).toEqual({ type: 'pong', stdin_offset: 6 })
    client.control({ type: 'stdin', data: '' })
    const euro = Buffer.from('€\n')
    client.control({ type: 'stdin', data: euro.subarray(0, 1).toString('base64') })
    client.control({ type: 'stdin', data: euro.subarray(1).toString('base64') })
    expect((await client.got(2))[1]).toBe('€')
    client.control({ type: 'resize' })
    expect(await client.closed).toMatchObject({ code: 4400 })
  })

  test('what a client wrote before it left reaches the process before what the next one writes', { tags: ['3.4'] }, async () => {
    await start('sleep 1; exec cat')
    const first = await LineClient.open(plane, 'p')
    const long = 'a'.repeat(900_000)
    first.send(long)
    await first.leave()
    const second = await LineClient.open(plane, 'p')
    second.send('b')
    const lines = await second.got(2)
    expect(lines[0] === long).toBe(true)
    expect(lines[1]).toBe('b')
  })
})
