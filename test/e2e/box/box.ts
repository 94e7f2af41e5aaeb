import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi } from '../support/api.ts'
import { type BoxApi, boxOf, openRpc, openSocket } from '../support/box.ts'
import { type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

type Session = { session_id: string; backend_session_id: string; last_used_at: string; [name: string]: unknown }
type Process = { status: string; exit_code: number | null; env_keys: string[] }
type Refusal = { error: { code: string; message: string } }

const SESSION_KEYS = [
  ...['session_id', 'backend_name', 'backend_session_id', 'image', 'network', 'host_path', 'host_path_mode', 'mount_path', 'persistent'],
  ...['cpus', 'memory_mb', 'pids_limit', 'read_only_rootfs', 'workspace_quota_mb', 'created_at', 'last_used_at'],
].sort()

/** The Box surface on real sandboxes (contract 4.7), the same on each provider. */
export const boxSuite = (provider: ProviderName): void => {
  describe(`${provider}: the Box surface`, () => {
    let stack: Stack
    let box: BoxApi
    beforeAll(async () => {
      stack = await startStack({ provider, config: { agent_heartbeat: 0.5 } })
      box = boxOf(stack)
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())
    const ws = (path: string) => `${stack.brokerUrl}/compat/box${path}`
    const refusalOf = (reply: { status: number; body: unknown }) => [reply.status, (reply.body as Refusal).error.code]

    test('[2-20, 0-22, 2-41] a session is made by its first command and used again: same container, its files are there', async () => {
      const first = await box.exec('s1', 'echo kept > note; echo done')
      expect(first.body).toMatchObject({ session_id: 's1', backend_name: provider, status: 'completed', exit_code: 0, stdout: 'done\n' })
      expect(Object.keys(first.body as object).sort()).toEqual(
        ['session_id', 'backend_name', 'status', 'exit_code', 'stdout', 'stderr', 'duration_ms'].sort(),
      )
      const made = (await box.get('s1')).body as Session
      expect(await box.output('s1', 'cat note')).toBe('kept\n')
      expect(((await box.get('s1')).body as Session).backend_session_id).toBe(made.backend_session_id)
      expect(Object.keys(made).sort()).toEqual(SESSION_KEYS)
    })

    test('[0-20, 0-21] fifty uses at once of a new scope: one sandbox', async () => {
      const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => box.create('together', i % 2 ? {} : { memory_mb: 512 })))
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([201]))
      expect(new Set(replies.map(({ body }) => (body as Session).backend_session_id)).size).toBe(1)
    })

    test('[0-18] it is an ordinary session, of the thread with its id', async () => {
      await box.create('s1')
      const grant = await brokerApi(stack.brokerUrl).ensure('s1')
      expect(grant.sandbox.id).toBe(((await box.get('s1')).body as Session).backend_session_id)
    })

    test('[2-02] nothing but white space is no command', async () => {
      expect(await box.create('s1', { cmd: '' })).toMatchObject({ status: 201 })
      const reply = await box.exec('s1', ' ')
      expect([reply.status, reply.body]).toEqual([400, { error: { code: 'validation_error', message: 'cmd must not be empty' } }])
    })

    test('[2-24] what runs out of time is told so, and its session is gone', async () => {
      const { body } = await box.exec('late', 'sleep 30', { timeout_sec: 1 })
      expect(body).toMatchObject({ status: 'timed_out', exit_code: null, stderr: 'Command timed out after 1 seconds.' })
      expect(refusalOf(await box.get('late'))).toEqual([404, 'session_not_found'])
    })

    test('[C-64] commands of one session run one at a time', async () => {
      const alone = 'mkdir busy && sleep 0.1 && rmdir busy'
      const replies = await Promise.all(Array.from({ length: 5 }, () => box.exec('in-turn', alone)))
      expect(replies.map(({ body }) => (body as { exit_code: number }).exit_code)).toEqual([0, 0, 0, 0, 0])
    })

    test('[C-64] no more wait than may run; no other session waits for them; they end with theirs and make no other', async () => {
      await box.create('crowded')
      const commands = Array.from({ length: 33 }, () => box.exec('crowded', 'sleep 60'))
      expect(refusalOf(await Promise.race(commands))).toEqual([503, 'capacity'])
      expect(await box.output('s1', 'echo free')).toBe('free\n')
      expect((await box.remove('crowded')).status).toBe(200)
      const codes = (await Promise.all(commands)).map(({ body }) => (body as Partial<Refusal>).error?.code)
      expect(codes.filter((code) => code === 'session_not_found').length).toBeGreaterThanOrEqual(31)
      expect(refusalOf(await box.get('crowded'))).toEqual([404, 'session_not_found'])
    })

    test('[2-14, 2-15] raw output is cut at 1 MiB with a notice, and is valid text', async () => {
      const { body } = await box.exec('s1', "head -c 2000000 /dev/zero | tr '\\0' a; printf 'a\\377b' >&2")
      const { stdout, stderr } = body as { stdout: string; stderr: string }
      expect(stdout.slice(1_048_576)).toBe('\n... [raw output clipped at 1048576 bytes, 951424 bytes discarded]')
      expect(stderr).toBe('a\uFFFDb')
    })

    test('[2-40] every action of the RPC answers with the number of its question', { timeout: 120_000 }, async () => {
      const rpc = await openRpc(ws('/rpc/ws'))
      const session_id = 'rpc'
      const ok = async (action: string, data: Record<string, unknown> = {}) => {
        const answer = await rpc.call(action, data)
        expect(answer).toMatchObject({ code: 0, message: 'ok', seq_id: expect.any(Number) })
        return answer.data
      }
      expect(await ok('box_health')).toEqual({ status: 'ok', available: true })
      await ok('box_init')
      expect(await ok('box_create_session', { session_id })).toMatchObject({ session_id })
      expect(await ok('box_exec', { session_id, cmd: 'echo hello' })).toMatchObject({ stdout: 'hello\n', exit_code: 0 })
      expect(await ok('box_get_session', { session_id })).toMatchObject({ session_id })
      expect(await ok('box_get_sessions')).toMatchObject({ sessions: expect.arrayContaining([expect.objectContaining({ session_id })]) })
      expect(await ok('box_start_managed_process', { session_id, spec: { command: 'cat' } })).toMatchObject({ status: 'running' })
      expect(await ok('box_get_managed_process', { session_id })).toMatchObject({ status: 'running', process_id: 'default' })
      expect(await ok('box_status')).toMatchObject({ available: true, managed_processes: 1 })
      expect(await ok('box_stop_managed_process', { session_id })).toEqual({ stopped: 'default' })
      expect(await ok('box_get_backend_info')).toMatchObject({ name: provider, available: true })
      expect(await ok('box_delete_session', { session_id })).toEqual({ deleted: session_id })
      expect(await rpc.call('box_get_session', { session_id })).toMatchObject({ code: 1, data: { error: { code: 'session_not_found' } } })
      expect(await rpc.call('box_dance')).toMatchObject({ code: 1, data: { error: { code: 'validation_error' } } })
      rpc.close()
    })

    test('[0-09] an explicit session_id wins over the template', async () => {
      const rpc = await openRpc(ws('/rpc/ws'))
      const variables = { launcher_type: 'group', launcher_id: 'g1' }
      const scope = { scope_template: '{launcher_type}_{launcher_id}', variables }
      expect(await rpc.call('box_exec', { ...scope, session_id: 's1', cmd: 'true' })).toMatchObject({ data: { session_id: 's1' } })
      expect(await rpc.call('box_exec', { ...scope, cmd: 'true' })).toMatchObject({ data: { session_id: 'group_g1' } })
      expect(await rpc.call('box_exec', { variables, cmd: 'true' })).toMatchObject({ data: { session_id: 'group_g1' } })
      rpc.close()
    })

    describe('[2-131] end to end', () => {
      test('[2-60, 2-61, 2-131] managed process lifecycle', async () => {
        await box.create('mp')
        const spec = { command: 'sh', args: ['-c', 'echo to stderr >&2; cat'], env: { B: 'secret-value', A: '1' } }
        const started = await box.start('mp', spec, 'p1')
        expect([started.status, (started.body as Process).status]).toEqual([201, 'running'])
        expect((started.body as Process).env_keys).toEqual(['A', 'B'])
        expect(started.text).not.toContain('secret-value')
        expect(refusalOf(await box.start('mp', spec, 'p1'))).toEqual([409, 'managed_process_conflict'])
        expect((await box.stop('mp', 'p1')).status).toBe(200)
        await eventually('it has ended', async () => ((await box.process('mp', 'p1')).body as Process).status === 'exited')
      })

      test('[2-43, 2-67, 2-131] WebSocket stdio both ways', async () => {
        await box.create('mp')
        await box.start('mp', { command: 'cat', replace: true })
        const socket = await openSocket(ws('/v1/sessions/mp/managed-process/ws'), { protocols: ['mcp'] })
        expect(socket.protocol).toBe('mcp')
        socket.send('hello')
        expect(await socket.next()).toBe('hello')
        socket.send('{"größe":"✓"}')
        expect(await socket.next()).toBe('{"größe":"✓"}')
        const second = await openSocket(ws('/v1/sessions/mp/managed-process/default/ws'))
        expect(second.status).toBe(409)
        await box.stop('mp')
        expect(await socket.closed).toBe(1000)
      })

      test('more than anything on the way holds waits for a process that does not read yet', async () => {
        await box.create('mp')
        const script = 'until [ -e go ]; do sleep 0.05; done; head -n 512 | sha256sum'
        await box.start('mp', { command: 'sh', args: ['-c', script], replace: true })
        const socket = await openSocket(ws('/v1/sessions/mp/managed-process/ws'))
        const line = 'x'.repeat(64 * 1024 - 1)
        const expected = createHash('sha256')
        for (let i = 0; i < 512; i++) {
          expected.update(`${line}\n`)
          socket.send(line)
        }
        await box.exec('mp', 'touch go')
        expect(await socket.next()).toBe(`${expected.digest('hex')}  -`)
        expect(await socket.closed).toBe(1000)
      })

      test('[2-26, 2-131] session cleanup', async () => {
        await box.create('gone')
        await box.start('gone', { command: 'cat' })
        const { backend_session_id } = (await box.get('gone')).body as Session
        const removed = await box.remove('gone')
        expect([removed.status, removed.body]).toEqual([200, { deleted: 'gone' }])
        expect(refusalOf(await box.get('gone'))).toEqual([404, 'session_not_found'])
        expect(refusalOf(await box.remove('gone'))).toEqual([404, 'session_not_found'])
        const { sessions } = (await box.list()).body as { sessions: Session[] }
        expect(sessions.map((session) => session.backend_session_id)).not.toContain(backend_session_id)
      })

      test('[2-25, 2-131] single session query', async () => {
        await box.create('one')
        expect(Object.keys((await box.get('one')).body as object)).not.toContain('managed_process')
        await box.start('one', { command: 'cat' }, 'p1')
        const one = (await box.get('one')).body as { managed_process: object; managed_processes: Record<string, Process> }
        expect(one).toMatchObject({ session_id: 'one', managed_process: { process_id: 'p1' } })
        expect(Object.keys(one.managed_processes)).toEqual(['p1'])
        expect(refusalOf(await box.get('nobody'))).toEqual([404, 'session_not_found'])
        await box.remove('one')
      })

      test('[2-61, 2-131] exit detection', async () => {
        await box.create('mp')
        await box.start('mp', { command: 'sh', args: ['-c', 'exit 7'] }, 'short')
        await eventually('the exit is seen', async () => {
          const { status, exit_code } = (await box.process('mp', 'short')).body as Process
          return status === 'exited' && exit_code === 7
        })
      })
    })

    test('[2-66, 2-42] attaching to what is not there is refused before the upgrade', async () => {
      await box.create('mp')
      await box.start('mp', { command: 'true', replace: true }, 'over')
      await eventually('it has ended', async () => ((await box.process('mp', 'over')).body as Process).status === 'exited')
      const status = async (path: string) => (await openSocket(ws(path))).status
      expect(await status('/v1/sessions/nobody/managed-process/ws')).toBe(404)
      expect(await status('/v1/sessions/mp/managed-process/nothing/ws')).toBe(404)
      expect(await status('/v1/sessions/mp/managed-process/over/ws')).toBe(409)
      expect((await openSocket(ws('/rpc/ws'), { key: 'nobody-knows-this-key-at-all-0123456789' })).status).toBe(401)
    })
  })
}
