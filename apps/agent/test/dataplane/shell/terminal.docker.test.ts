import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { CAPABILITIES, Profile } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Agent, AgentConfig, createAgent } from '../../../src/index.ts'
import { ENROLL_TOKEN, TestBroker } from '../../host/support/broker.ts'
import { silent } from '../../host/support/host.ts'
import { Screen } from '../../support/screen.ts'
import { TestSocket } from '../../support/socket.ts'

let broker: TestBroker
let agent: Agent
let dataDir: string
let wsBase: string
let token: string

/** An agent on the engine, and one sandbox with a file to look at. */
beforeAll(async () => {
  broker = await TestBroker.start()
  dataDir = await mkdtemp('/tmp/bxt-')
  const config = { dataDir, port: 0, brokerUrl: broker.url, enrollToken: ENROLL_TOKEN, provider: 'docker', destroyOnExit: true }
  agent = createAgent(AgentConfig.parse(config), { log: silent })
  const { url, controlUrl } = await agent.start()
  const created = await fetch(`${controlUrl}/control/v1/sessions/s1/sandbox`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${broker.controlToken()}`, 'content-type': 'application/json' },
    body: JSON.stringify({ tenant_id: 't', profile: Profile.parse({ name: 'default' }) }),
  })
  const { sandbox_id: id } = (await created.json()) as { sandbox_id: string }
  const now = Math.floor(Date.now() / 1000)
  token = broker.sign({
    ...{ iss: broker.url, aud: id, sandbox_id: id, sub: 'human', sid: 's1', thread_id: null, tid: 't', caps: CAPABILITIES, gen: 1 },
    ...{ iat: now, exp: now + 900, jti: randomUUID(), ver: 1 },
  })
  wsBase = `${url.replace('http', 'ws')}/sandboxes/${id}/v1`
  const exec = new TestSocket(`${wsBase}/exec/ws`, 'binary', { token })
  await exec.frame('auth_ok')
  exec.start({ command: 'for i in $(seq 1 300); do echo "line $i of the file"; done > lines.txt' })
  await exec.closed
})
afterAll(async () => {
  await agent.close()
  await broker.close()
  await rm(dataDir, { recursive: true, force: true })
})

type Size = { cols: number; rows: number }
const SMALL: Size = { cols: 60, rows: 16 }
const USUAL: Size = { cols: 80, rows: 24 }
const LARGE: Size = { cols: 110, rows: 42 }

const shell = async (start: Record<string, unknown>): Promise<TestSocket> => {
  const socket = new TestSocket(`${wsBase}/shell/ws`, 'binary', { token })
  await socket.frame('auth_ok')
  socket.start(start)
  await socket.frame('ready')
  return socket
}

const PROGRAMS = {
  less: { argv: ['less', 'lines.txt'], keys: '100g', at: 'line 100 of the file' },
  vim: { argv: ['vi', '-n', '-u', 'NONE', 'lines.txt'], keys: ':100\rzt', at: 'line 100 of the file' },
} as const

/** A program that has been told to show the middle of the file. */
const run = async (name: keyof typeof PROGRAMS, size: Size, id: string = randomUUID()): Promise<{ socket: TestSocket; screen: Screen }> => {
  const { argv, keys, at } = PROGRAMS[name]
  const socket = await shell({ argv, shell_id: id, ...size })
  const screen = new Screen(socket, size)
  await screen.until((shown) => shown.startsWith('line 1 of the file'))
  socket.stdin(keys)
  await screen.until((shown) => shown.startsWith(at) && settled(shown))
  return { socket, screen }
}

/** The bottom line is the program's own again. */
const settled = (shown: string): boolean => /\ncursor 0,0$|\n:\ncursor 1,\d+$/.test(shown)

const end = async (socket: TestSocket): Promise<void> => {
  socket.send({ type: 'close' })
  await socket.closed
}

describe.each(['less', 'vim'] as const)('%s after a reattach looks like a fresh one at that size', { tags: ['3.5'] }, (name) => {
  const cells = [SMALL, USUAL, LARGE].flatMap((size) => [
    { ...size, from: 0, kind: 'fixed' as const },
    { ...size, from: 0, kind: 'resized' as const },
    { ...size, from: 'end', kind: 'fixed' as const },
  ])

  test.each(cells)('$cols×$rows, output from $from, $kind terminal', async ({ from, kind, ...size }) => {
    const fresh = await run(name, size)
    const expected = await fresh.screen.show()
    await end(fresh.socket)

    const left = await run(name, USUAL)
    const id = left.socket.find('ready')?.shell_id as string
    left.socket.ws.terminate()
    await left.socket.closed
    const socket = await shell({ attach: id, stdout_offset: from, ...size })
    expect(await new Screen(socket, size, kind).until((shown) => shown === expected)).toBe(expected)
    await end(socket)
  })
})

test('one who joins late, with a window of the same size, sees what the first one sees', { tags: ['3.5'] }, async () => {
  const first = await run('vim', USUAL)
  const late = await shell({ attach: first.socket.find('ready')?.shell_id, mode: 'viewer', stdout_offset: 'end', ...USUAL })
  const seen = new Screen(late, USUAL)
  first.socket.stdin('dd')
  // The program moves the lines up first, and then writes the last one.
  const shown = await first.screen.until((text) => /^line 101 .*\nline 123 of the file\n/s.test(text) && settled(text))
  await seen.until((text) => text === shown)
  await end(first.socket)
})
