import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type ManagedProcess, PROCESS_LIMITS } from '@boxoffice/protocol'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { eventually } from '../../support/eventually.ts'
import { LineClient } from '../../support/line-client.ts'

let plane: TestDataplane
beforeEach(async () => {
  plane = await TestDataplane.start()
})
afterEach(() => plane[Symbol.asyncDispose]())

const start = async (body: Record<string, unknown>): Promise<ManagedProcess> => {
  const response = await plane.post('/processes', body)
  const answer = await response.json()
  if (response.status !== 201) throw new Error(`${response.status} ${JSON.stringify(answer)}`)
  return answer as ManagedProcess
}
const sh = (script: string, rest: Record<string, unknown> = {}): Promise<ManagedProcess> =>
  start({ command: '/bin/sh', args: ['-c', script], ...rest })

const get = (id = 'default'): Promise<ManagedProcess> => plane.process(id)
const stop = async (id = 'default'): Promise<number> => (await plane.fetch(`/processes/${id}`, { method: 'DELETE' })).status
const becomes = (id: string, expected: Partial<ManagedProcess>): Promise<void> =>
  eventually(async () => expect(await get(id)).toMatchObject(expected))
const codeOf = async (response: Response): Promise<string> => ((await response.json()) as { error: { code: string } }).error.code

describe('a managed process', () => {
  test('runs under its id with its record, which names variables and never tells their values', { tags: ['2-60'] }, async () => {
    const made = await sh('echo "$SECRET" > seen; exec sleep 60', { env: { SECRET: 'hunter2', A: '1' }, cwd: '.' })
    expect(made).toMatchObject({
      ...{ process_id: 'default', status: 'running', command: '/bin/sh', cwd: '.', env_keys: ['A', 'SECRET'], attached: false },
      ...{ exited_at: null, exit_code: null, stderr_preview: '', restarts: 0, restart: 'never' },
    })
    expect(made.args).toEqual(['-c', 'echo "$SECRET" > seen; exec sleep 60'])
    expect(Date.parse(made.started_at)).toBeGreaterThan(0)
    await eventually(async () => expect(await readFile(join(plane.sandbox.workspacePath, 'seen'), 'utf8')).toBe('hunter2\n'))
    const told = [made, await get(), await (await plane.fetch('/processes')).json()]
    expect(JSON.stringify(told)).not.toContain('hunter2')
    expect(JSON.stringify(await (await plane.fetch('/execs')).json())).toBe('{"execs":[]}')
  })

  test('what the agent keeps for a restart, values too, is for its own user alone', { tags: ['2-60'] }, async () => {
    await sh('exec sleep 60', { process_id: 'p1', env: { SECRET: 'hunter2' } })
    const directory = join(plane.sandbox.directory, 'processes')
    expect(await readdir(directory)).toEqual(['p1.json'])
    expect((await stat(directory)).mode & 0o777).toBe(0o700)
    expect((await stat(join(directory, 'p1.json'))).mode & 0o777).toBe(0o600)
  })

  test('is one of many: p1 stops, p2 runs', { tags: ['0-46'] }, async () => {
    await sh('exec sleep 60', { process_id: 'p1' })
    await sh('exec sleep 60', { process_id: 'p2' })
    expect(await stop('p1')).toBe(204)
    expect(await get('p1')).toMatchObject({ status: 'exited', exit_code: 143, reason: 'killed', kill_cause: 'stopped' })
    expect(await get('p2')).toMatchObject({ status: 'running' })
    const { processes } = (await (await plane.fetch('/processes')).json()) as { processes: ManagedProcess[] }
    expect(processes.map(({ process_id, status }) => [process_id, status])).toEqual([
      ['p1', 'exited'],
      ['p2', 'running'],
    ])
  })

  test('its exit is seen, with code and time', { tags: ['2-61'] }, async () => {
    await sh('exit 0', { process_id: 'good' })
    await sh('echo broken >&2; exit 3', { process_id: 'bad' })
    await becomes('good', { status: 'exited', exit_code: 0, reason: 'exited' })
    await becomes('bad', { status: 'exited', exit_code: 3, stderr_preview: 'broken\n' })
    expect(Date.parse((await get('bad')).exited_at ?? '')).toBeGreaterThan(0)
  })

  test('one that cannot be started says why', { tags: ['2-61'] }, async () => {
    const made = await start({ command: '/nowhere/server' })
    expect(made).toMatchObject({ status: 'exited', exit_code: 127, reason: 'spawn_failed', spawn_error: { kind: 'not_found' } })
    expect(made.stderr_preview).toContain('/nowhere/server')
  })

  test('50 MB of stderr cost the agent nothing and end in a preview of 4000 characters', { tags: ['2-62'] }, async () => {
    await sh('exec sleep 60', { process_id: 'quiet' })
    const before = process.memoryUsage.rss()
    await sh('head -c 50000000 /dev/zero | tr "\\0" "x" >&2; printf "äöü TAIL" >&2; exec sleep 60', { process_id: 'loud' })
    await eventually(async () => expect((await get('loud')).stderr_preview).toMatch(/TAIL$/))
    const { stderr_preview: preview } = await get('loud')
    expect(preview).toHaveLength(PROCESS_LIMITS.stderrPreviewCharacters)
    expect(preview).toMatch(/^x+äöü TAIL$/)
    expect(process.memoryUsage.rss() - before).toBeLessThan(20 * 1024 * 1024)
  })

  test('stderr is drained while a client that reads nothing holds back stdout', { tags: ['2-62'] }, async () => {
    await sh('while :; do echo 0123456789012345678901234567890123456789; done & head -c 5000000 /dev/zero >&2; echo done > drained; wait', {
      process_id: 'p',
    })
    const client = await LineClient.open(plane, 'p')
    client.ws.pause()
    await eventually(async () => expect(await readFile(join(plane.sandbox.workspacePath, 'drained'), 'utf8')).toBe('done\n'))
    client.ws.resume()
    client.ws.terminate()
  })

  test('a running id is a conflict unless it is to be replaced', { tags: ['2-63'] }, async () => {
    await sh('exec sleep 60', { process_id: 'p' })
    const second = await plane.post('/processes', { process_id: 'p', command: 'sleep', args: ['1'] })
    expect([second.status, await codeOf(second)]).toEqual([409, 'PROCESS_CONFLICT'])
    expect(await sh('exec sleep 61', { process_id: 'p', replace: true })).toMatchObject({
      status: 'running',
      args: ['-c', 'exec sleep 61'],
    })
    await stop('p')
    // One that has ended is no conflict.
    expect(await sh('exec sleep 62', { process_id: 'p' })).toMatchObject({ status: 'running' })
  })

  test('of many at once with one id exactly one starts', { tags: ['2-63'] }, async () => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, () =>
        plane.post('/processes', { process_id: 'p', command: 'sh', args: ['-c', 'echo x >> once; sleep 60'] }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array.from({ length: 9 }, () => 409)])
    await eventually(async () => expect(await readFile(join(plane.sandbox.workspacePath, 'once'), 'utf8')).toBe('x\n'))
  })

  test('a stop is stdin closed, TERM, KILL, and can be said again', { tags: ['3.10'] }, async () => {
    await sh('cat > input; echo eof > ended', { process_id: 'polite' })
    expect(await stop('polite')).toBe(204)
    expect(await stop('polite')).toBe(204)
    expect(await stop('unknown')).toBe(204)
    expect(await get('polite')).toMatchObject({ status: 'exited' })
    await sh('trap "" TERM; touch trapped; while :; do sleep 1; done', { process_id: 'stubborn' })
    await eventually(() => readFile(join(plane.sandbox.workspacePath, 'trapped')))
    expect(await stop('stubborn')).toBe(204)
    expect(await get('stubborn')).toMatchObject({ status: 'exited', exit_code: 137 })
  })

  test('at most 64 run at once', { tags: ['2-35'] }, async () => {
    for (let i = 0; i < PROCESS_LIMITS.running; i++) await start({ process_id: `p${i}`, command: 'sleep', args: ['60'] })
    const refused = await plane.post('/processes', { process_id: 'more', command: 'sleep', args: ['60'] })
    expect([refused.status, await codeOf(refused)]).toEqual([429, 'RATE_LIMITED'])
    await stop('p0')
    expect(await start({ process_id: 'more', command: 'sleep', args: ['60'] })).toMatchObject({ status: 'running' })
  })

  test('of those that have ended 256 are known, and each for 300 s', { tags: ['2-35'] }, async () => {
    for (let i = 0; i < PROCESS_LIMITS.completed + 4; i++) {
      await start({ process_id: `p${i}`, command: 'true' })
      // On a busy machine they start faster than they end, and only so many may run.
      if (i >= PROCESS_LIMITS.running / 2) await becomes(`p${i - PROCESS_LIMITS.running / 2}`, { status: 'exited' })
    }
    await eventually(async () => {
      const { processes } = (await (await plane.fetch('/processes')).json()) as { processes: ManagedProcess[] }
      expect(processes).toHaveLength(PROCESS_LIMITS.completed)
    })
    expect((await plane.fetch('/processes/p0')).status).toBe(404)
    expect(await readdir(join(plane.sandbox.directory, 'processes'))).toHaveLength(PROCESS_LIMITS.completed)
    const later = performance.now() + PROCESS_LIMITS.completedKeptSeconds * 1000
    const clock = vi.spyOn(performance, 'now').mockReturnValue(later + 1000)
    try {
      expect(await (await plane.fetch('/processes')).json()).toEqual({ processes: [] })
      expect(await readdir(join(plane.sandbox.directory, 'processes'))).toEqual([])
    } finally {
      clock.mockRestore()
    }
  })

  test('is work for as long as it runs, also between two starts', { tags: ['0-45'] }, async () => {
    const { activity } = plane.sandbox
    await sh('exec sleep 60', { process_id: 'p' })
    expect(activity.snapshot().running).toBe(1)
    await stop('p')
    expect(activity.snapshot().running).toBe(0)
    await sh('exit 1', { process_id: 'p', restart: 'always', max_restarts: 1 })
    await becomes('p', { restarting: true })
    expect(activity.snapshot().running).toBe(1)
    await becomes('p', { status: 'exited', restarts: 1, restarting: false })
    expect(activity.snapshot().running).toBe(0)
  })

  test('each end is told to those who follow the session', { tags: ['4.5'] }, async () => {
    await sh('exit 7', { process_id: 'p' })
    await eventually(() =>
      expect(plane.sandbox.facts).toContainEqual({
        type: 'process.exit',
        data: {
          ...{ process_id: 'p', exit_code: 7, signal: null, reason: 'exited', kill_cause: null, oom_killed: false },
          duration_ms: expect.any(Number),
        },
      }),
    )
    expect(plane.sandbox.facts).toHaveLength(1)
  })

  test('needs the capability exec, over HTTP and for its socket', { tags: ['4-105'] }, async () => {
    await sh('exec sleep 60')
    const token = await plane.sign({ caps: ['shell', 'fs_read', 'fs_write'] })
    for (const [path, method] of [
      ['/processes', 'POST'],
      ['/processes', 'GET'],
      ['/processes/default', 'GET'],
      ['/processes/default', 'DELETE'],
    ] as const) {
      const response = await plane.fetch(path, { method, token, headers: { 'Content-Type': 'application/json' } })
      expect([path, response.status, await codeOf(response)]).toEqual([path, 403, 'CAPABILITY_DENIED'])
    }
    expect(await LineClient.refused(plane, 'default', { token })).toEqual({ status: 403, code: 'CAPABILITY_DENIED' })
  })

  test.each([
    [{}, 'command'],
    [{ command: '' }, 'command'],
    [{ command: 'a\0b' }, 'command'],
    [{ command: 'true', process_id: '../x' }, 'process_id'],
    [{ command: 'true', process_id: '' }, 'process_id'],
    [{ command: 'true', args: [1] }, 'args.0'],
    [{ command: 'true', env: { '1A': 'x' } }, 'env'],
    [{ command: 'true', restart: 'sometimes' }, 'restart'],
    [{ command: 'true', max_restarts: -1 }, 'max_restarts'],
  ])('%j is refused by the name of its field', { tags: ['3.10'] }, async (body, field) => {
    const response = await plane.post('/processes', body)
    const { error } = (await response.json()) as { error: { code: string; message: string } }
    expect([response.status, error.code]).toEqual([400, 'INVALID_REQUEST'])
    expect(error.message).toContain(field)
  })
})

describe('restart policy', () => {
  test('on_failure starts it again until it succeeds', { tags: ['4.5'] }, async () => {
    await sh('echo run >> runs; [ "$(wc -l < runs)" -ge 3 ] && exit 0; exit 1', { process_id: 'p', restart: 'on_failure' })
    await becomes('p', { status: 'exited', restarts: 2, exit_code: 0, restarting: false })
  })

  test('always starts it again after success too, max_restarts times', { tags: ['4.5'] }, async () => {
    await sh('echo run >> runs; exit 0', { process_id: 'p', restart: 'always', max_restarts: 2 })
    await becomes('p', { status: 'exited', restarts: 2, restarting: false })
    expect(await readFile(join(plane.sandbox.workspacePath, 'runs'), 'utf8')).toBe('run\nrun\nrun\n')
  })

  test('what was stopped stays stopped, also while it waits', { tags: ['4.5'] }, async () => {
    await sh('exec sleep 60', { process_id: 'runs', restart: 'always' })
    await stop('runs')
    expect(await get('runs')).toMatchObject({ status: 'exited', restarting: false })
    await sh('exit 1', { process_id: 'waits', restart: 'always' })
    await becomes('waits', { restarting: true })
    await stop('waits')
    expect(await get('waits')).toMatchObject({ status: 'exited', restarting: false })
    expect(plane.sandbox.activity.snapshot().running).toBe(0)
  })
})
