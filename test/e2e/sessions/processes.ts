import { connect, execForModel, type Lines, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { API_KEY, MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'

const collect = async (source: Lines, count: number): Promise<string[]> => {
  const lines: string[] = []
  for await (const line of source) if (lines.push(line) === count) break
  return lines
}
/** Thousands of lines are compared once, not one by one. */
const same = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((line, i) => line === b[i])

/** Long-lived programs that no drop, restart or missing client does harm to. */
export const processesSuite = (provider: ProviderName): void => {
  describe.each(MODES)(`%s, ${provider}: a managed process`, (mode) => {
    let stack: Stack
    let session: Session
    const restartAgent = async (): Promise<void> => {
      await stack.agent().kill('SIGKILL')
      await stack.startAgent()
    }
    beforeAll(async () => {
      stack = await startStack({ provider, mode })
      session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('processes')
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    test('[2-60, 0-46, 2-61] is started, listed, looked at and stopped by its id', async () => {
      const { processes } = session
      const one = await processes.start('sh', {
        processId: 'one',
        args: ['-c', 'echo oops >&2; exec sleep 600'],
        env: { SECRET: 'hunter2', A: 'b' },
      })
      expect(one).toMatchObject({ processId: 'one', status: 'running', command: 'sh', envKeys: ['A', 'SECRET'], attached: false })
      await processes.start('sleep', { processId: 'two', args: ['600'] })
      expect((await processes.list()).map(({ processId, status }) => [processId, status])).toEqual([
        ['one', 'running'],
        ['two', 'running'],
      ])
      await vi.waitFor(async () => expect((await processes.get('one')).stderrPreview).toBe('oops\n'), { timeout: 60_000 })
      await processes.stop('one')
      expect(await processes.get('one')).toMatchObject({ status: 'exited', reason: 'killed' })
      expect(await processes.get('two')).toMatchObject({ status: 'running' })
      await expect(processes.start('true', { processId: 'two' })).rejects.toMatchObject({ code: 'PROCESS_CONFLICT' })
      await processes.stop('two')
    })

    test('[2-43, 2-68] is attached to line by line, long lines and all', async () => {
      await session.processes.start('cat', { processId: 'echo' })
      const lines = await session.processes.attach('echo')
      const long = JSON.stringify({ text: 'ä€😀'.repeat(120_000) })
      for (const line of ['hello', long, 'end']) await lines.send(line)
      expect(same(await collect(lines, 3), ['hello', long, 'end'])).toBe(true)
      await expect(session.processes.attach('echo')).rejects.toMatchObject({ code: 'ALREADY_ATTACHED' })
      const taker = await session.processes.attach('echo', { takeover: true })
      await expect(collect(lines, 1)).rejects.toMatchObject({ code: 'TAKEN_OVER' })
      await session.processes.stop('echo')
      expect(await collect(taker, 1)).toEqual([])
      await expect(session.processes.attach('echo')).rejects.toMatchObject({ code: 'PROCESS_NOT_RUNNING' })
      await expect(session.processes.attach('nowhere')).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    })

    test('[2-65, 4.5] is known to an agent that comes back, with its policy and what it needs to start it again', {
      timeout: 120_000,
    }, async () => {
      const script = 'echo "run $SECRET" >> runs; read line; exit 1'
      await session.processes.start('sh', {
        ...{ processId: 'kept', args: ['-c', script], env: { SECRET: 'hunter2' }, cwd: '.', restart: 'on_failure', maxRestarts: 5 },
      })
      const before = await session.processes.get('kept')
      await restartAgent()
      expect(await session.processes.get('kept')).toEqual(before)
      const lines = await session.processes.attach('kept')
      await lines.send('end')
      expect(await collect(lines, 1)).toEqual([])
      await vi.waitFor(async () => expect(await session.processes.get('kept')).toMatchObject({ status: 'running', restarts: 1 }), {
        timeout: 180_000,
      })
      // It runs before it has written.
      await vi.waitFor(async () => expect(await session.files.text('runs')).toBe('run hunter2\nrun hunter2\n'), { timeout: 60_000 })
      await session.processes.stop('kept')
      await restartAgent()
      expect(await session.processes.get('kept')).toMatchObject({ status: 'exited', restarting: false })
    })

    test('[2-65, 2-43] whose agent is killed in mid-stream loses no line and repeats none, on stdout and on stdin', {
      timeout: 120_000,
    }, async () => {
      // Counts until it has read `end`, and says again what it reads.
      const count = 'i=0; while [ ! -e over ]; do echo "n $i"; i=$((i+1)); sleep 0.002; done'
      const script = `(${count}) & while read -r line; do echo "e $line"; if [ "$line" = end ]; then touch over; wait; exit 0; fi; done`
      await session.processes.start('sh', { processId: 'both', args: ['-c', script] })
      const lines = await session.processes.attach('both')
      const counted: string[] = []
      const echoed: string[] = []
      const reading = (async () => {
        for await (const line of lines) (line.startsWith('e ') ? echoed : counted).push(line.slice(2))
      })()
      let sent = 0
      let enough = false
      const sending = (async () => {
        for (; !enough; sent++) {
          await lines.send(String(sent))
          await new Promise((resolve) => setTimeout(resolve, 1))
        }
        await lines.send('end')
      })()
      const bothGoOn = async (): Promise<void> => {
        const goals = [counted.length + 100, echoed.length + 100] as const
        const ended = reading.then(() => Promise.reject(new Error(`ended after ${counted.length} and ${echoed.length} lines`)))
        const reached = () => expect(counted.length >= goals[0] && echoed.length >= goals[1]).toBe(true)
        await Promise.race([ended, vi.waitFor(reached, { timeout: 60_000 })])
      }
      await bothGoOn()
      await restartAgent()
      await bothGoOn()
      enough = true
      await Promise.all([sending, reading])
      const numbers = (length: number): string[] => Array.from({ length }, (_, i) => String(i))
      expect(same(echoed, [...numbers(sent), 'end'])).toBe(true)
      expect(same(counted, numbers(counted.length))).toBe(true)
    })

    test('[4.5] that has ended while the agent was away is started again when it is back, and its end is told once', {
      timeout: 120_000,
    }, async () => {
      await session.processes.start('sh', {
        ...{
          processId: 'ended',
          args: ['-c', 'echo run >> again; [ "$(wc -l < again)" -ge 2 ] && exec sleep 600; while [ ! -e end ]; do sleep 0.1; done; exit 9'],
        },
        restart: 'always',
      })
      await session.exec('(sleep 0.7; touch end) > /dev/null 2>&1 &')
      await stack.agent().kill('SIGKILL')
      await new Promise((resolve) => setTimeout(resolve, 1500))
      await stack.startAgent()
      await vi.waitFor(async () => expect(await session.processes.get('ended')).toMatchObject({ status: 'running', restarts: 1 }), {
        timeout: 180_000,
      })
      await session.processes.stop('ended')
      const ends: unknown[] = []
      const stop = new AbortController()
      setTimeout(() => stop.abort(), 60_000).unref()
      try {
        for await (const event of session.events({ signal: stop.signal })) {
          if (event.type !== 'process.exit' || event.processId !== 'ended') continue
          ends.push([event.exitCode, event.reason])
          if (event.reason === 'killed') break
        }
      } catch (error) {
        if (!stop.signal.aborted) throw error
      }
      expect(ends).toEqual([
        [9, 'exited'],
        [143, 'killed'],
      ])
    })

    test('[2-12, 2-13] a model reads both ends of each stream that is too long, and the others whole', async () => {
      const result = await execForModel(session, {
        command: 'echo short; (echo HEAD; head -c 50000 /dev/zero | tr "\\0" x; echo TAIL) >&2',
      })
      expect(result).toMatchObject({
        status: 'completed',
        ok: true,
        exit_code: 0,
        stdout: 'short\n',
        stdout_truncated: false,
        stderr_truncated: true,
      })
      expect(result.stderr).toMatch(/^HEAD\nx+\n\n\.\.\. \[\d+ characters truncated\] \.\.\.\n\nx+TAIL\n$/)
      expect(result.stderr.length).toBeLessThanOrEqual(4000)
    })

    test('[2-14, 2-15] of 200 MB it reads the first MiB, clipped, and what is not UTF-8 as such', async () => {
      const { stdout, stdout_truncated: truncated } = await execForModel(session, { command: 'head -c 200000000 /dev/zero | tr "\\0" x' })
      expect(truncated).toBe(true)
      expect(stdout).toMatch(/x\n\.\.\. \[raw output clipped at 1048576 bytes, 198951424 bytes discarded\]$/)
      expect((await execForModel(session, { command: "printf 'a\\377b'" })).stdout).toBe('a\ufffdb')
    })

    test('[2-16] a model runs commands by four arguments, and by no others', async () => {
      const result = await execForModel(session, {
        command: 'pwd; echo $WHO',
        workdir: '/workspace',
        env: { WHO: 'me' },
        timeout_sec: '10',
      })
      expect(Object.keys(result)).toEqual([
        ...[
          'session_id',
          'backend',
          'status',
          'ok',
          'exit_code',
          'stdout',
          'stderr',
          'stdout_truncated',
          'stderr_truncated',
          'duration_ms',
        ],
      ])
      expect(result).toMatchObject({ session_id: session.id, backend: provider, stdout: '/workspace\nme\n' })
      expect(await execForModel(session, { command: 'exit 3' })).toMatchObject({ status: 'completed', ok: false, exit_code: 3 })
      expect(await execForModel(session, { command: 'sleep 30', timeout_sec: 1 })).toMatchObject({
        ...{ status: 'timed_out', ok: false, exit_code: null, stderr: 'Command timed out after 1 seconds.' },
      })
      await expect(execForModel(session, { command: 'true', image: 'x' })).rejects.toMatchObject({ code: 'INVALID_REQUEST' })
    })
  })
}
