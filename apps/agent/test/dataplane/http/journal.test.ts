import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { TestDataplane } from '../../support/dataplane.ts'

let plane: TestDataplane
beforeEach(async () => {
  plane = await TestDataplane.start()
})
afterEach(() => plane[Symbol.asyncDispose]())

/** What is written is written after the answer. */
const written = async (count: number) => {
  while (plane.journal.batch().length < count) await delay(5)
  return plane.journal.batch()
}
const exits = () => plane.sandbox.facts.flatMap((fact) => (fact.type === 'exec.exit' ? [fact] : []))
const until = async (holds: () => boolean) => {
  while (!holds()) await delay(5)
}
const hashOf = (token: string) => createHash('sha256').update(token).digest('base64url')

describe('who comes to the dataplane', { tags: ['C-72'] }, () => {
  test('a token is told once per part of the dataplane, over HTTP and over sockets', async () => {
    for (let i = 0; i < 3; i++) await plane.exec({ command: 'true' })
    await plane.fetch('/execs')
    await plane.fetch('/files')
    const other = await plane.sign({ sub: 'somebody', jti: 'another' })
    await plane.fetch('/execs', { token: other })
    const socket = new WebSocket(`${plane.wsBase}/shell/ws`)
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'auth', token: plane.token }))
    await once(socket, 'message')
    socket.close()
    const entries = await written(4)
    expect(entries).toMatchObject(
      [
        { route: 'exec', transport: 'http', token_hash: hashOf(plane.token) },
        { route: 'files', transport: 'http' },
        { route: 'exec', transport: 'http', sub: 'somebody', jti: 'another', token_hash: hashOf(other) },
        { route: 'shell', transport: 'ws', token_hash: hashOf(plane.token) },
      ].map((data) => ({
        type: 'dataplane.open',
        session_id: plane.sandbox.sessionId,
        sandbox_id: plane.sandbox.id,
        data: { ip: '127.0.0.1', ...data },
      })),
    )
    expect(entries).toHaveLength(4)
  })

  test('refusals are told with their reason, and no more of one address than the log can take', async () => {
    await plane.fetch('/execs', { token: 'no.token.atall' })
    await plane.fetch('/execs', { token: await plane.sign({ caps: ['fs_read'] }) })
    await plane.fetch('/files/download?path=../../etc/passwd')
    await plane.fetch('/files/download?path=missing') // 404 is no refusal
    await plane.fetch(`/../${'x'.repeat(50)}`)
    const socket = new WebSocket(`${plane.wsBase}/exec/ws`)
    await once(socket, 'open')
    socket.send(JSON.stringify({ type: 'start', command: 'true' }))
    await once(socket, 'close')
    const refused = () => plane.journal.batch().filter(({ type }) => type === 'dataplane.refused')
    await until(() => refused().length >= 4)
    expect(refused().map(({ data }) => [data.code, data.route])).toEqual([
      ['UNAUTHENTICATED', 'unknown'],
      ['CAPABILITY_DENIED', 'exec'],
      ['INVALID_PATH', 'files'],
      ['UNAUTHENTICATED', 'exec'],
    ])
    expect(refused()[1]?.data).toMatchObject({ sub: expect.any(String), reason: expect.stringContaining('exec not granted') })
    for (let i = 0; i < 60; i++) await plane.fetch('/execs', { token: 'no.token.atall' })
    await delay(20)
    expect(refused().length).toBeLessThan(40)
    expect(JSON.stringify(plane.journal.batch())).not.toContain(plane.token)
  })
})

describe('how processes end', () => {
  test('is told once each, whoever reads, and however often the id is asked for', async () => {
    await plane.exec({ command: 'exit 3', exec_id: 'a' })
    await plane.exec({ command: 'exit 3', exec_id: 'a' })
    await plane.fetch('/execs/a')
    await plane.exec({ argv: ['/no/such'], exec_id: 'b' })
    await plane.post('/exec', { command: 'sleep 0.2; exit 4', exec_id: 'c', detach: true })
    await until(() => exits().length === 3)
    expect(exits().map(({ data, recovered }) => [data.exec_id, data.exit_code, data.reason, recovered])).toEqual([
      ['a', 3, 'exited', undefined],
      ['b', 127, 'spawn_failed', undefined],
      ['c', 4, 'exited', undefined],
    ])
  })

  test('a stop that ends what runs in the background is told as that', { tags: ['C-53'] }, async () => {
    await plane.post('/exec', { command: 'sleep 600', exec_id: 'background', detach: true })
    await plane.sandbox.link.call('shutdown', { cause: 'stopped', grace_ms: 1000 })
    await until(() => exits().length === 1)
    expect(exits()[0]?.data).toMatchObject({ exec_id: 'background', reason: 'killed', kill_cause: 'stopped', signal: 'SIGTERM' })
  })

  test('what ended while the agent was away is told by the next one, marked as perhaps told before', async () => {
    await plane.exec({ command: 'exit 5', exec_id: 'before' })
    await plane.post('/exec', { command: 'sleep 0.1; exit 6', exec_id: 'away', detach: true })
    await plane.post('/exec', { command: 'sleep 2; exit 7', exec_id: 'later', detach: true })
    await until(() => exits().length === 2)
    await plane.sandbox.relink()
    plane.sandbox.facts.length = 0
    plane.sandbox.adoptProcesses()
    await until(() => exits().length === 3)
    expect(
      exits()
        .map(({ data, recovered }) => `${data.exec_id} ${data.exit_code} ${recovered ?? false}`)
        .toSorted(),
    ).toEqual(['away 6 true', 'before 5 true', 'later 7 false'])
    await plane.exec({ command: 'exit 5', exec_id: 'before' })
    await plane.exec({ command: 'true', exec_id: 'new' })
    await until(() => exits().length === 4)
    expect(exits()[3]).toMatchObject({ data: { exec_id: 'new' } })
    expect(exits()[3]?.recovered).toBeUndefined()
  })
})

test('who has the answer of an exec finds its end told, and its place free', async () => {
  for (let count = 1; count <= 20; count++) {
    await plane.exec({ command: 'true' })
    expect([exits().length, plane.sandbox.activity.snapshot().running]).toEqual([count, 0])
  }
})
