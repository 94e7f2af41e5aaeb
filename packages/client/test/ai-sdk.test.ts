import { expect } from 'vitest'
import { aiSandbox } from '../src/ai-sdk/index.ts'
import { GapError } from '../src/base/errors.ts'
import { drain } from '../src/stream/drain.ts'
import { Inbox } from '../src/stream/inbox.ts'
import { test } from './fixture/server-test.ts'

test('kill of a process reaches it over a connection that drops', async ({ server, session }) => {
  const running = await aiSandbox(session).spawn({ command: 'sleep 600' })
  const [process] = server.processes.values()
  // A frame would be on this connection, and nobody would read it.
  process?.socket?.pause()
  server.intercept = ({ method, path, body }) => {
    if (method !== 'POST' || !path.endsWith(`/execs/${process?.id}/signal`)) return undefined
    expect(JSON.parse(body.toString())).toEqual({ signal: 'KILL' })
    server.cut()
    process?.exit({ exit_code: 137, signal: 'SIGKILL', reason: 'signaled' })
    return { json: {} }
  }
  await running.kill()
  expect(await running.wait()).toEqual({ exitCode: 137 })
})

test('a drain goes on behind a gap that the reader before it was waiting for', async () => {
  const inbox = new Inbox('stdout', () => {})
  inbox.beginAt(0, 0)
  const pieces = inbox[Symbol.asyncIterator]()
  const pending = pieces.next()
  const drained = drain(inbox, pieces)
  inbox.beginAt(10, 0)
  inbox.push(new Uint8Array(4))
  inbox.complete(14)
  await expect(pending).rejects.toThrow(GapError)
  await drained
  expect(inbox.consumed).toBe(14)
})
