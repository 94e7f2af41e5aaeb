import assert from 'node:assert/strict'
import { eventually } from '../../e2e/support/traces.ts'
import { type Case, check } from '../case.ts'
import { refused } from '../expect.ts'

/** Contract 3.2: exec over HTTP. */
export const execCases: readonly Case[] = [
  check('4-100, 4-101', 'output is exact, a non-zero exit is 200', async (t) => {
    const grant = await t.shared()
    const { body } = await t.exec(grant, "printf 'a\\n\\n'; printf b >&2; exit 3")
    assert.deepEqual([body.stdout, body.stderr, body.exit_code, body.signal, body.reason], ['a\n\n', 'b', 3, null, 'exited'])
    assert.deepEqual(body.metadata, { session_id: grant.session_id, sandbox_id: grant.sandbox.id })
    assert.deepEqual(
      [body.stdout_bytes, body.stdout_truncated, body.lossy, body.timed_out, body.oom_killed],
      [3, false, false, false, false],
    )
  }),
  check('4-102, C-65', 'a timeout ends the whole tree: 124, the output so far', async (t) => {
    const grant = await t.shared()
    const mark = `31.4159${Math.floor(Math.random() * 1e6)}`
    const { body } = await t.exec(grant, {
      command: `echo so far; sleep ${mark} & setsid sleep ${mark} & (sleep ${mark} &) ; sleep ${mark}`,
      timeout_seconds: 1,
    })
    assert.deepEqual([body.exit_code, body.reason, body.timed_out, body.stdout], [124, 'timed_out', true, 'so far\n'])
    const left = await t.exec(
      grant,
      `grep -l "${mark.slice(0, 3)}[${mark.slice(3, 4)}]${mark.slice(4)}" /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | wc -l`,
    )
    assert.equal(String(left.body.stdout).trim(), '0')
  }),
  check('C-31', 'an end by signal is 128 + n with its name', async (t) => {
    const { body } = await t.exec(await t.shared(), { argv: ['sh', '-c', 'kill -TERM $$'] })
    assert.deepEqual([body.exit_code, body.signal, body.reason], [143, 'SIGTERM', 'signaled'])
  }),
  check('C-33', 'what cannot start says why, with 127 or 126', async (t) => {
    const grant = await t.shared()
    await t.exec(grant, 'echo x > plain; chmod 644 plain; printf "\\1\\2" > odd; chmod 755 odd')
    const kinds: [Record<string, unknown>, number, string][] = [
      [{ argv: ['/nonesuch'] }, 127, 'not_found'],
      [{ argv: ['/workspace/plain'] }, 126, 'permission_denied'],
      [{ argv: ['/workspace/odd'] }, 126, 'not_executable'],
      [{ argv: ['true'], cwd: '/nonesuch' }, 126, 'bad_cwd'],
    ]
    for (const [request, exit, kind] of kinds) {
      const { status, body } = await t.exec(grant, request)
      assert.deepEqual(
        [status, body.exit_code, body.reason, (body.spawn_error as { kind: string }).kind],
        [200, exit, 'spawn_failed', kind],
      )
    }
    const byShell = await t.exec(grant, 'nonesuch-command')
    assert.deepEqual([byShell.body.exit_code, byShell.body.reason], [127, 'exited'])
  }),
  check('C-63', 'command, argv, both, none, too long', async (t) => {
    const grant = await t.shared()
    assert.equal((await t.exec(grant, { argv: ['printf', '%s', '$HOME'] })).body.stdout, '$HOME')
    refused(await t.exec(grant, {}), 400, 'INVALID_REQUEST')
    refused(await t.exec(grant, { command: 'true', argv: ['true'] }), 400, 'INVALID_REQUEST')
    refused(await t.exec(grant, { command: `: ${'x'.repeat(131_072)}` }), 413, 'PAYLOAD_TOO_LARGE')
    assert.equal((await t.exec(grant, { command: `: ${'x'.repeat(131_000)}` })).body.exit_code, 0)
  }),
  check('3.2', 'stdin, env and cwd reach the program', async (t) => {
    const grant = await t.shared()
    const piped = await t.exec(grant, { command: 'cat; echo "$A"; pwd', stdin: 'in\n', env: { A: 'b c' }, cwd: '/tmp' })
    assert.equal(piped.body.stdout, 'in\nb c\n/tmp\n')
    const bytes = await t.exec(grant, { command: 'cat', stdin_base64: Buffer.from([0, 255]).toString('base64'), encoding: 'base64' })
    assert.equal(bytes.body.stdout, Buffer.from([0, 255]).toString('base64'))
    refused(await t.exec(grant, { command: 'true', env: { 'A-B': 'x' } }), 400, 'INVALID_REQUEST')
  }),
  check('C-34', 'bytes that are no UTF-8 are marked, or exact in base64', async (t) => {
    const grant = await t.shared()
    const text = await t.exec(grant, "printf 'a\\377b'")
    assert.deepEqual([text.body.stdout, text.body.lossy], ['a\ufffdb', true])
    assert.equal(
      (await t.exec(grant, { command: "printf 'a\\377b'", encoding: 'base64' })).body.stdout,
      Buffer.from('a\xffb', 'latin1').toString('base64'),
    )
  }),
  check('3.2', 'output beyond the limit is cut in the middle, counted in full, and never blocks the program', async (t) => {
    const { body } = await t.exec(await t.shared(), { command: 'yes | head -c 5000000', max_output_bytes: 1000 })
    assert.deepEqual([body.exit_code, body.stdout_bytes, body.stdout_truncated], [0, 5_000_000, true])
    assert.match(String(body.stdout), /bytes truncated/)
    assert.ok(Buffer.byteLength(String(body.stdout)) <= 1000)
  }),
  check('3.2', 'one exec_id runs once, however often it is asked', async (t) => {
    const grant = await t.shared()
    const exec_id = crypto.randomUUID()
    const command = `echo line >> once-${exec_id}; sleep 0.2; wc -l < once-${exec_id}`
    const all = await Promise.all(Array.from({ length: 20 }, () => t.exec(grant, { command, exec_id })))
    assert.deepEqual(new Set(all.map(({ body }) => String(body.stdout).trim())), new Set(['1']))
    refused(await t.exec(grant, { command: 'true', exec_id }), 409, 'EXEC_CONFLICT')
  }),
  check('C-29', 'detach answers at once; the run is found by its id', async (t) => {
    const grant = await t.shared()
    const exec_id = crypto.randomUUID()
    const begun = await t.exec(grant, { command: 'echo a; sleep 0.3; echo b', exec_id, detach: true })
    assert.deepEqual([begun.status, begun.body], [202, { exec_id, state: 'running' }])
    await eventually('it ends', async () => (await t.dp(grant, 'GET', `/execs/${exec_id}`)).body.reason === 'exited')
    assert.equal((await t.dp(grant, 'GET', `/execs/${exec_id}`)).body.stdout, 'a\nb\n')
    refused(await t.dp(grant, 'GET', '/execs/nonesuch'), 404, 'EXEC_NOT_FOUND')
    const list = await t.dp<{ execs: { exec_id: string }[] }>(grant, 'GET', '/execs')
    assert.ok(list.body.execs.some((exec) => exec.exec_id === exec_id))
  }),
  check('3.2', 'output by offset says where it is and where it ends', async (t) => {
    const grant = await t.shared()
    const exec_id = crypto.randomUUID()
    await t.exec(grant, { command: 'seq 1 50000', exec_id })
    const whole: Buffer[] = []
    let offset = 0
    for (;;) {
      const piece = await t.dp(grant, 'GET', `/execs/${exec_id}/output?stream=stdout&offset=${offset}&limit=50000`)
      assert.deepEqual([piece.status, piece.headers.get('x-stream-offset')], [200, String(offset)])
      whole.push(piece.bytes)
      offset = Number(piece.headers.get('x-stream-next-offset'))
      if (piece.headers.get('x-stream-eof') === 'true') break
    }
    assert.equal(Buffer.concat(whole).toString(), Array.from({ length: 50_000 }, (_, i) => `${i + 1}\n`).join(''))
  }),
  check('3.2, 4-127', 'a signal by HTTP reaches the program; after its end it is 409', async (t) => {
    const grant = await t.shared()
    const exec_id = crypto.randomUUID()
    await t.exec(grant, { command: 'trap "exit 9" USR1; while :; do sleep 0.05; done', exec_id, detach: true })
    const send = (signal: string) => t.dp(grant, 'POST', `/execs/${exec_id}/signal`, { body: { signal } })
    refused(await send('SEGV'), 400, 'INVALID_REQUEST')
    await eventually('the trap is set and taken', async () => (await send('USR1')).status === 409)
    refused(await send('USR1'), 409, 'PROCESS_NOT_RUNNING')
    const { body } = await t.dp(grant, 'GET', `/execs/${exec_id}`)
    assert.ok(body.exit_code === 9 || body.signal === 'SIGUSR1', JSON.stringify(body))
  }),
  check('C-66', 'a background child that holds stdout neither delays the exit nor the next exec', async (t) => {
    const grant = await t.shared()
    const started = performance.now()
    assert.equal((await t.exec(grant, 'sleep 20 & echo done')).body.stdout, 'done\n')
    assert.equal((await t.exec(grant, 'echo next')).body.stdout, 'next\n')
    assert.ok(performance.now() - started < 15_000, 'it waited for the child')
  }),
  check('C-64', 'execs run at once, up to the limit of the profile, then 429', async (t) => {
    const grant = await t.ensure({ profile: 'conformance-small' })
    const runs = Array.from({ length: 4 }, (_, i) => t.exec(grant, { command: 'sleep 30', exec_id: `slow-${i}`, detach: true }))
    assert.deepEqual(new Set((await Promise.all(runs)).map(({ status }) => status)), new Set([202]))
    refused(await t.exec(grant, 'true'), 429, 'RATE_LIMITED')
  }),
]
