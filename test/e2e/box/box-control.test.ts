import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { request } from '../support/api.ts'
import { type BoxApi, boxApi, boxOf, openRpc } from '../support/box.ts'
import { BOXOFFICE, runProgram, startProgram } from '../support/program.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

type Refusal = { error: { code: string; message: string } }
const CONTROL_TOKEN = 'e2e-box-control-token-0123456789abcdef'
const codeOf = (reply: { status: number; body: unknown }) => [reply.status, (reply.body as Refusal).error?.code]

describe('local: control over the Box surface', () => {
  let stack: Stack
  let box: BoxApi
  const keyOf = async (fields: Record<string, unknown>): Promise<string> => {
    const reply = await request(`${stack.brokerUrl}/v1/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'k', principal: 'somebody', ...fields }),
    })
    return (reply.body as { key: string }).key
  }
  const console_ = (path: string, key?: string) =>
    request(`${stack.brokerUrl}/api/v1/box/${path}`, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } })
  beforeAll(async () => {
    stack = await startStack({
      provider: 'local',
      config: { box: { control_token: CONTROL_TOKEN } },
      brokerArgs: ['--box-port', '0', '--box-rpc-port', '0'],
    })
    box = boxOf(stack)
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  test('[2-50] it takes a control token or a key with the right "box"', async () => {
    const plain = await keyOf({})
    const entitled = await keyOf({ rights: ['box'] })
    const root = `${stack.brokerUrl}/compat/box`
    expect((await request(`${root}/v1/sessions`)).status).toBe(401)
    expect(codeOf(await boxApi(root, 'wrong-key-of-more-than-32-characters-0').list())).toEqual([401, 'unauthorized'])
    expect(codeOf(await boxApi(root, plain).list())).toEqual([403, 'forbidden'])
    expect((await boxApi(root, entitled).list()).status).toBe(200)
    expect((await boxApi(root, CONTROL_TOKEN).create('by-token')).status).toBe(201)
    const short = await runProgram(['broker', '--enroll-token', 'x'.repeat(32)], {
      BOXOFFICE_BOX: '{"control_token":"short"}',
      BOXOFFICE_DATA_DIR: stack.brokerDataDir,
    })
    expect(short.code).not.toBe(0)
    expect(short.stderr).toContain('at least 32 characters')
  })

  test('[2-47, 2-48] status, sessions and errors for front ends: keys, and who may see them', async () => {
    const user = await keyOf({ principal: 'reader' })
    const status = await console_('status', user)
    expect(status.body).toMatchObject({ available: true, profile: 'default', session_ttl_sec: 300, backend: { name: 'local' } })
    expect(Object.keys(status.body as object)).toEqual(
      expect.arrayContaining([
        ...['available', 'profile', 'recent_error_count', 'backend', 'active_sessions', 'managed_processes', 'session_ttl_sec'],
      ]),
    )
    expect(status.body).toMatchObject({ limits: { max_sessions: 64, max_managed_processes: 64, max_completed_processes: 256 } })
    for (const path of ['status', 'sessions', 'errors']) expect((await console_(path)).status).toBe(401)
    for (const path of ['sessions', 'errors']) expect((await console_(path, user)).status).toBe(403)
    expect((await console_('sessions', API_KEY)).body).toMatchObject({ sessions: expect.any(Array) })
    for (let n = 0; n < 60; n++) await box.exec('s', ' ', { query_id: n })
    const { errors } = (await console_('errors', API_KEY)).body as { errors: Record<string, unknown>[] }
    expect(errors).toHaveLength(50)
    expect(errors.at(-1)).toEqual({
      ...{ timestamp: expect.any(String), type: 'validation_error', message: 'cmd must not be empty', query_id: '59' },
    })
    expect((await console_('status', API_KEY)).body).toMatchObject({ recent_error_count: 50 })
  })

  test('[2-41, 2-42] the route table, and refusals in the words of the surface', async () => {
    expect((await box.create('t')).status).toBe(201)
    expect(codeOf(await box.create('t', { memory_mb: 1 }))).toEqual([400, 'validation_error'])
    expect(codeOf(await box.create('t', { memory_mb: 64 }))).toEqual([409, 'session_conflict'])
    expect(codeOf(await box.process('t', 'nothing'))).toEqual([404, 'managed_process_not_found'])
    expect(codeOf(await box.get('nobody'))).toEqual([404, 'session_not_found'])
    expect(codeOf(await box.send('GET', '/v2/nothing'))).toEqual([404, 'not_found'])
    expect(codeOf(await box.send('POST', '/v1/sessions/t/exec', 'a text'))).toEqual([400, 'validation_error'])
    expect((await box.send('GET', '/v1/health')).body).toEqual({ status: 'ok', available: true })
    expect((await box.status()).status).toBe(200)
    expect((await box.start('t', { command: 'cat' })).status).toBe(201)
    expect((await box.process('t')).status).toBe(200)
    expect(await box.remove('t')).toMatchObject({ status: 200, body: { deleted: 't' } })
  })

  test('[2-44] the same at the root of ports of its own, the RPC at the root of one', async () => {
    const ready = stack.broker().ready as unknown as { box_port: number; box_rpc_port: number }
    const own = boxApi(`http://127.0.0.1:${ready.box_port}`)
    expect(await own.output('own', 'echo here')).toBe('here\n')
    expect((await boxApi(`http://127.0.0.1:${ready.box_rpc_port}`).get('own')).status).toBe(200)
    const rpc = await openRpc(`ws://127.0.0.1:${ready.box_rpc_port}/`)
    expect(await rpc.call('box_get_session', { session_id: 'own' })).toMatchObject({ code: 0, data: { session_id: 'own' } })
    rpc.close()
    expect((await openRpc(`ws://127.0.0.1:${ready.box_port}/`)).status).toBe(404)
  })

  test('[2-27] box_shutdown ends the sessions of the surface', async () => {
    await box.create('end-1')
    const rpc = await openRpc(`${stack.brokerUrl}/compat/box/rpc/ws`)
    expect(await rpc.call('box_shutdown')).toMatchObject({ code: 0, data: { closed: expect.any(Number) } })
    expect((await box.list()).body).toEqual({ sessions: [] })
    rpc.close()
  })

  test('[2-130] the log has the command, cut, and names of the environment only', async () => {
    await box.exec('logged', `true ${'x'.repeat(600)}`, { env: { SECRET_NAME: 'secret-canary-value' } })
    await eventually('it is logged', () => stack.broker().stderr().includes('SECRET_NAME'))
    expect(stack.broker().stderr()).not.toContain('secret-canary-value')
    expect(stack.broker().stderr()).not.toContain('x'.repeat(401))
  })
})

describe('boxoffice up for a program that starts it', () => {
  let dataDir: string
  let child: ChildProcess | undefined
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'bxo-'))
  })
  afterAll(async () => {
    if (child?.exitCode === null) child.kill('SIGKILL')
    await rm(dataDir, { recursive: true, force: true })
  })

  test('[2-45, 2-40] --box-stdio speaks the RPC on standard input and output, a line each, and ends with its input', async () => {
    const args = ['up', '--box-stdio', '--box-port', '0', '--port', '0', '--agent-port', '0', '--provider', 'local', '--destroy-on-exit']
    const up = spawn(BOXOFFICE, [...args, '--data-dir', dataDir], { stdio: ['pipe', 'pipe', 'ignore'] })
    child = up
    const lines = createInterface({ input: up.stdout })[Symbol.asyncIterator]()
    const call = async (message: object) => {
      up.stdin.write(`${JSON.stringify(message)}\n`)
      return JSON.parse((await lines.next()).value ?? 'null') as object
    }
    expect(await call({ seq_id: 1, action: 'box_health' })).toMatchObject({ seq_id: 1, code: 0, data: { status: 'ok' } })
    const run = { seq_id: 'two', action: 'box_exec', data: { session_id: 's', cmd: 'echo hi' } }
    expect(await call(run)).toMatchObject({ seq_id: 'two', code: 0, data: { stdout: 'hi\n' } })
    const ended = once(up, 'exit')
    up.stdin.end()
    expect(await ended).toEqual([0, null])
  })
})

describe('[0-53, 2-49] without a provider', () => {
  test('the product starts and says so; what needs a sandbox refuses with 503', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'bxo-'))
    const up = await startProgram(
      [
        ...['up', '--port', '0', '--agent-port', '0', '--provider', 'docker', '--docker-host', `unix://${dataDir}/none.sock`],
        ...['--data-dir', dataDir],
      ],
      {},
    )
    try {
      const { broker_url: url, api_key: key } = up.ready
      expect((await request(`${url}/healthz`)).status).toBe(200)
      expect((await request(`${url}/readyz`)).status).toBe(503)
      const box = boxApi(`${url}/compat/box`, key)
      expect((await box.status()).body).toMatchObject({ available: false, backend: { available: false, reason: expect.any(String) } })
      expect(codeOf(await box.exec('s', 'true'))).toEqual([503, 'backend_unavailable'])
    } finally {
      await up.stop()
      await rm(dataDir, { recursive: true, force: true })
    }
  })

  test('[2-05] a profile that is not there ends the start and lists those that are', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'bxo-'))
    const { code, stderr } = await runProgram(['up', '--port', '0', '--data-dir', dataDir], { BOXOFFICE_BOX: '{"profile":"nope"}' })
    expect(code).not.toBe(0)
    expect(stderr).toMatch(/"nope".*default, offline_readonly, network_basic, network_extended/)
    await rm(dataDir, { recursive: true, force: true })
  })

  test('compat box=false: 404', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'bxo-'))
    const up = await startProgram(['up', '--port', '0', '--agent-port', '0', '--compat', 'box=false', '--data-dir', dataDir])
    try {
      const { broker_url: url, api_key: key } = up.ready
      expect((await boxApi(`${url}/compat/box`, key).list()).status).toBe(404)
    } finally {
      await up.stop()
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})
