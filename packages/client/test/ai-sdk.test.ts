import { expect } from 'vitest'
import { aiSandbox } from '../src/ai-sdk/index.ts'
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
