import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BoxApi, boxOf, openSocket } from '../support/box.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'
import { eventually, processWith, supervisorOf } from '../support/traces.ts'

type Refusal = { error: { code: string; message: string } }
const refusalOf = (reply: { status: number; body: unknown }) => [reply.status, (reply.body as Refusal).error?.code]

describe('local: Box sessions with a TTL of 2 s', () => {
  let stack: Stack
  let box: BoxApi
  let directory: string
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bxo-data-'))
    await chmod(directory, 0o755)
    await writeFile(join(directory, 'note'), 'from the host\n')
    stack = await startStack({
      provider: 'local',
      agentArgs: ['--allowed-host-mount-roots', directory],
      config: { agent_heartbeat: 0.3, reaper_interval_ms: 100, box: { session_ttl_sec: 2, max_sessions: 8 } },
    })
    box = boxOf(stack)
  })
  afterAll(async () => {
    await stack?.[Symbol.asyncDispose]()
    await rm(directory, { recursive: true, force: true })
  })
  const isThere = async (id: string) => (await box.get(id)).status === 200

  test('[2-21, 2-22] one that nobody uses ends; persistent ones do not', async () => {
    await box.create('lasting', { persistent: true })
    await box.create('idle')
    await eventually('it has ended', async () => !(await isThere('idle')))
    expect(await isThere('lasting')).toBe(true)
    await box.remove('lasting')
  })

  test('[2-22] a command that runs for longer is not cut off', async () => {
    expect(await box.output('long', 'sleep 6; echo done')).toBe('done\n')
  })

  test('[0-45, 2-69] a managed process keeps its session; without it the session ends', { timeout: 180_000 }, async () => {
    await box.create('server')
    await box.start('server', { command: 'cat' })
    await new Promise((resolve) => setTimeout(resolve, 6000)) // three times the TTL: it is what is tested
    expect(await box.get('server')).toMatchObject({ status: 200, body: { managed_process: { status: 'running' } } })
    const socket = await openSocket(`${stack.brokerUrl}/compat/box/v1/sessions/server/managed-process/ws`)
    socket.send('still there')
    expect(await socket.next()).toBe('still there')
    socket.close()
    expect((await box.stop('server')).status).toBe(200)
    await eventually('it has ended', async () => !(await isThere('server')))
  })

  test('[2-34] a sandbox that dies is noticed, and the next command gets a new one', async () => {
    const mark = `sleep 9${Date.now() % 100_000}`
    await box.create('dies')
    await box.start('dies', { command: 'sh', args: ['-c', `${mark}; true`] })
    const before = (await box.get('dies')).body as { backend_session_id: string }
    process.kill(supervisorOf(await processWith(mark)), 'SIGKILL')
    await eventually('a command runs again', async () => (await box.exec('dies', 'echo new')).status === 200)
    expect((await box.get('dies')).body).not.toMatchObject({ backend_session_id: before.backend_session_id })
  })

  test('[2-119] a workspace above its quota: the command fails and the session is gone; a full one takes no command', {
    timeout: 180_000,
  }, async () => {
    const fill = 'head -c 3000000 /dev/urandom > big'
    await box.create('small', { workspace_quota_mb: 1 })
    expect((await box.exec('small', 'echo fits > note')).status).toBe(200)
    expect(refusalOf(await box.exec('small', fill))).toEqual([503, 'capacity'])
    expect(await isThere('small')).toBe(false)
    // One that would never end is stopped, and answered.
    await box.create('slow', { workspace_quota_mb: 1 })
    const slow = await box.exec('slow', 'while :; do head -c 100000 /dev/zero >> big; sleep 0.05; done', { timeout_sec: 170 })
    expect(refusalOf(slow)).toEqual([503, 'capacity'])
    expect(await isThere('slow')).toBe(false)
    await box.create('filled', { workspace_quota_mb: 1 })
    await box.start('filled', { command: 'sh', args: ['-c', `${fill}; cat`] })
    await eventually('it is refused', async () => (await box.exec('filled', 'true')).status === 503)
    await box.remove('filled')
  })

  test('[0-34] other extra mounts make the sandbox of a session anew, the same ones and none do not', { timeout: 180_000 }, async () => {
    const idOf = async () => ((await box.get('mounted')).body as { backend_session_id: string }).backend_session_id
    await box.create('mounted')
    const sandbox = await idOf()
    expect(await box.output('mounted', 'ls -d /data 2>/dev/null || echo nothing')).toBe('nothing\n')
    const extra_mounts = [{ host_path: directory, mount_path: '/data', mode: 'ro' }]
    expect(await box.output('mounted', 'cat /data/note', { extra_mounts })).toBe('from the host\n')
    await box.start('mounted', { command: 'cat' })
    expect(await box.output('mounted', 'cat /data/note', { extra_mounts })).toBe('from the host\n')
    expect(await box.output('mounted', 'cat /data/note')).toBe('from the host\n')
    expect((await box.get('mounted')).body).toMatchObject({ managed_process: { status: 'running' } })
    expect(await idOf()).toBe(sandbox)
    await box.remove('mounted')
  })

  test('[0-36, 2-113] a host path outside of the allowed roots is refused', async () => {
    const reply = await box.create('refused', { extra_mounts: [{ host_path: '/etc', mount_path: '/data' }] })
    expect(refusalOf(reply)).toEqual([400, 'validation_error'])
  })

  test('[0-46] many processes in one session: one stops, the other runs', async () => {
    await box.create('many')
    await box.start('many', { command: 'cat' }, 'p1')
    await box.start('many', { command: 'cat' }, 'p2')
    await box.stop('many', 'p1')
    expect((await box.get('many')).body).toMatchObject({ managed_processes: { p1: { status: 'exited' }, p2: { status: 'running' } } })
    await box.remove('many')
  })
})

describe('local: what a Box session is', () => {
  let stack: Stack
  let box: BoxApi
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', config: { box: { max_sessions: 1, profile: 'default' } } })
    box = boxOf(stack)
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())

  test.each([
    ['network', 'on', 'off'],
    ['image', 'other/image:1', 'null'],
    ['host_path', '/srv', 'null'],
    ['host_path_mode', 'ro', 'rw'],
    ['cpus', 2, '1'],
    ['memory_mb', 1024, '512'],
    ['pids_limit', 64, '128'],
    ['read_only_rootfs', false, 'true'],
    ['persistent', true, 'false'],
    ['workspace_quota_mb', 5, '0'],
  ])('[2-23] to use it with another %s is a conflict that names the field', async (field, value, has) => {
    await box.create('one')
    const reply = await box.exec('one', 'true', { [field]: value })
    expect(refusalOf(reply)).toEqual([409, 'session_conflict'])
    expect((reply.body as Refusal).error.message).toContain(`Box session one already exists with ${field}=${has}`)
  })

  test('[2-23] with the same it is used, and what is not named is not asked for', async () => {
    await box.create('one')
    expect((await box.exec('one', 'true', { memory_mb: 512, network: 'off' })).status).toBe(200)
    expect((await box.exec('one', 'true')).status).toBe(200)
  })

  test('[0-50, 0-51, 2-35] above max_sessions: 503 capacity, also for many at once; another tenant has its own', {
    timeout: 180_000,
  }, async () => {
    await box.create('one')
    expect(refusalOf(await box.exec('two', 'true'))).toEqual([503, 'capacity'])
    await box.remove('one')
    const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => box.create(`race-${i}`)))
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(new Set(replies.filter(({ status }) => status !== 201).map((reply) => String(refusalOf(reply))))).toEqual(
      new Set(['503,capacity']),
    )
    const made = await fetch(`${stack.brokerUrl}/v1/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'x', principal: 'x', tenant: 'other', rights: ['box'] }),
    })
    const { key } = (await made.json()) as { key: string }
    expect((await boxOf(stack, key).create('one')).status).toBe(201)
    const session = await connect(stack.brokerUrl, { apiKey: key }).session('one')
    await session.files.upload('kept', 'x'.repeat(3 * 2 ** 20))
    const run = await session.exec.start('sleep 600')
    const usage = await fetch(`${stack.brokerUrl}/v1/usage?disk=true`, { headers: { authorization: `Bearer ${key}` } })
    expect(await usage.json()).toMatchObject({
      ...{ tenant: 'other', box_sessions: { live: 1, max: 1 }, sessions: { live: 1 } },
      processes: { running: 1, unknown: 0 },
      disk: { used: { bytes: expect.toSatisfy((bytes: number) => bytes >= 3 * 2 ** 20), entries: expect.any(Number), unknown: 0 } },
    })
    const others = await fetch(`${stack.brokerUrl}/v1/usage`, { headers: { authorization: `Bearer ${API_KEY}` } })
    expect(await others.json()).toMatchObject({ processes: { running: 0, unknown: 0 }, disk: { used: null } })
    run.signal('KILL')
    await run.exit
    const full = await fetch(`${stack.brokerUrl}/v1/sandbox/sessions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ thread_id: 'ordinary', mode: 'ensure' }),
    })
    expect(full.status).toBe(200)
  })
})
