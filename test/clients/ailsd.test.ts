import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { brokerApi, type Grant, request } from '../e2e/support/api.ts'
import { API_KEY, type Stack, startStack } from '../e2e/support/stack.ts'
import { programsOf, runProgram } from './support/page-programs.ts'

/** The calls of the reference client of the session-access protocol, one after the other (contract 7.4). */
describe.each(['direct', 'relay'] as const)('ailsd, %s', (mode) => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', mode })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  /** With and without `/v1` through the relay; agents have it alone. */
  const basesOf = ({ sandbox }: Grant): string[] =>
    mode === 'relay' ? [sandbox.http_base_url, sandbox.http_base_url.replace(/\/v1$/, '')] : [sandbox.http_base_url]

  test('ensure, refresh, read, execute, files, socket, delete', async () => {
    const broker = brokerApi(stack.brokerUrl)
    const grant = await broker.ensure('ailsd')
    const session = `${stack.brokerUrl}/v1/sandbox/sessions/${grant.session_id}`
    const headers = { 'x-api-key': API_KEY, 'content-type': 'application/json' }
    const refreshed = await request(`${session}/refresh`, { method: 'POST', headers, body: '{}' })
    expect(refreshed).toMatchObject({ status: 200, body: { token: expect.any(String) } })
    const { token } = refreshed.body as { token: string }
    expect((await request(session, { headers })).status).toBe(200)

    // It sends its key beside the token: `Authorization` holds.
    const both = { authorization: `Bearer ${token}`, 'x-api-key': API_KEY, 'content-type': 'application/json' }
    for (const base of basesOf(grant)) {
      const run = (body: object) => request(`${base}/execute`, { method: 'POST', headers: both, body: JSON.stringify(body) })
      expect(await run({ command: 'echo out; echo err >&2; exit 3', timeout_secs: 30 })).toMatchObject({
        status: 200,
        body: { stdout: 'out\n', stderr: 'err\n', exit_code: 3 },
      })
      const form = new FormData()
      form.append('file', new Blob(['content']), 'file')
      const { 'content-type': _, ...withoutType } = both
      const upload = await request(`${base}/upload?path=/workspace/up.txt`, { method: 'POST', headers: withoutType, body: form })
      expect(upload.status).toBe(200)
      expect((await request(`${base}/download?path=/workspace/up.txt`, { headers: both })).text).toBe('content')
      expect(await request(`${base}/download?path=/workspace/none`, { headers: both })).toMatchObject({
        status: 404,
        body: { error_type: 'FILE_NOT_FOUND', message: expect.any(String), error: { code: 'FILE_NOT_FOUND' } },
      })
      expect(await run({ command: 7 })).toMatchObject({ status: 400, body: { error_type: 'INVALID_REQUEST', message: expect.any(String) } })
      expect(await framesOf(`${base.replace(/^http/, 'ws')}/execute/ws`, token)).toEqual([
        { type: 'started', command_id: expect.any(String), pid: expect.any(Number) },
        { type: 'stdout', data: 'hello\n', offset: 0 },
        { type: 'exit', exit_code: 4 },
      ])
    }
    expect((await broker.release(grant.session_id)).status).toBe(204)
  })
  if (mode === 'relay') return

  test('the program of the page runs', async () => {
    const [program = ''] = programsOf('ailsd.md')
    expect(await runProgram(program, stack)).toContain("stdout: 'hello from /workspace\\n'")
  })
})

/** The frames of one command, to the close of its socket. */
const framesOf = async (url: string, token: string): Promise<unknown[]> => {
  const ws = new WebSocket(url, { headers: { 'x-api-key': token } })
  const frames: unknown[] = []
  ws.on('message', (data) => frames.push(JSON.parse(String(data))))
  await once(ws, 'open')
  ws.send(JSON.stringify({ type: 'execute', command: 'echo hello; exit 4', timeout_seconds: 30, shell: '/bin/bash' }))
  await once(ws, 'close')
  return frames
}
