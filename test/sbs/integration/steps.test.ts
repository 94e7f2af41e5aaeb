import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sbsClient } from '../support/client.ts'
import { type SbsServer, startSbs } from '../support/server.ts'

let server: SbsServer
let sbs: ReturnType<typeof sbsClient>
let id: string

beforeAll(async () => {
  server = await startSbs({ env: { SBS_OF_THE_SERVER: 'secret of the server' } })
  sbs = sbsClient(server.url)
})
beforeEach(async () => {
  id = await sbs.create()
})
afterAll(() => server[Symbol.asyncDispose]())

const MiB = 1024 * 1024

describe('step routing', () => {
  test('[3-05] a step without its fields: 422 with each of them', async () => {
    const { status, body } = await sbs.post(id, {})
    expect(status).toBe(422)
    expect(body).toEqual({
      detail: ['sandbox_id', 'type', 'payload'].map((name) => ({ type: 'missing', loc: ['body', name], msg: 'Field required', input: {} })),
    })
  })

  test('[3-05] what is no JSON: 422', async () => {
    const { status, body } = await sbs.post(id, '{"sandbox_id":')
    expect(status).toBe(422)
    expect(body).toEqual({
      detail: [
        { type: 'json_invalid', loc: ['body', 0], msg: 'JSON decode error', input: {}, ctx: { error: expect.stringContaining('JSON') } },
      ],
    })
  })

  test('[3-06, C-70] a step that names another sandbox is refused and runs nowhere', async () => {
    const other = await sbs.create()
    const { status, body } = await sbs.post(id, { sandbox_id: other, type: 'bash', payload: { cmd: 'touch ran' } })
    expect(status).toBe(422)
    expect(body).toMatchObject({ detail: [{ loc: ['body', 'sandbox_id'], msg: 'sandbox_id must be equal to the session_id of the URL' }] })
    expect(await sbs.bash(id, 'ls')).toEqual({ output: '', error: '', exit_code: 0 })
    expect(await sbs.bash(other, 'ls')).toEqual({ output: '', error: '', exit_code: 0 })
    expect(server.log().filter(({ event, session_id }) => event === 'step_started' && session_id === id)).toHaveLength(1)
  })

  test.each(['ruby', 'BASH', '', null])('[3-07] type %j: 422', async (type) => {
    expect((await sbs.post(id, { sandbox_id: id, type, payload: { cmd: 'true' } })).status).toBe(422)
  })

  test('[3-08] the payload of the other type: 422', async () => {
    expect((await sbs.post(id, { sandbox_id: id, type: 'bash', payload: { code: 'true' } })).status).toBe(422)
    expect((await sbs.post(id, { sandbox_id: id, type: 'python', payload: { cmd: 'true' } })).status).toBe(422)
  })
})

describe('how a step runs', () => {
  test('[3-09] its streams and its code, exactly', async () => {
    const { status, text } = await sbs.post(id, { sandbox_id: id, type: 'bash', payload: { cmd: 'echo a; echo b >&2; exit 3' } })
    expect([status, text]).toEqual([200, '{"output":"a\\n","error":"b\\n","exit_code":3}'])
  })

  test('[3-10] Python: variables do not last, files do', async () => {
    expect(await sbs.python(id, "x = 1; open('note', 'w').write('kept')")).toEqual({ output: '', error: '', exit_code: 0 })
    const lost = await sbs.python(id, 'print(x)')
    expect(lost.exit_code).toBe(1)
    expect(lost.error).toContain("NameError: name 'x' is not defined")
    expect(await sbs.python(id, "print(open('note').read())")).toEqual({ output: 'kept\n', error: '', exit_code: 0 })
  })

  test('[3-11] bash it is', async () => {
    expect(await sbs.bash(id, 'a=(1 2 3); echo "$' + '{#a[@]} $0"')).toEqual({ output: '3 /bin/bash\n', error: '', exit_code: 0 })
  })

  test('[3-12] each step is a new process in the directory of the session', async () => {
    const { output: directory } = await sbs.bash(id, 'pwd; cd /; export LEFT=behind')
    expect(await sbs.bash(id, 'pwd; echo -n "$LEFT"')).toEqual({ output: directory, error: '', exit_code: 0 })
    const [first, second] = [await sbs.bash(id, 'echo $$'), await sbs.bash(id, 'echo $$')]
    expect(first.output).not.toBe(second.output)
  })

  test('[3-22] sessions share no files, no environment and no directory', async () => {
    const other = await sbs.create()
    await sbs.bash(id, 'echo mine >mine; export MINE=1; cd /')
    expect(await sbs.bash(other, 'ls; echo -n "$MINE"')).toEqual({ output: '', error: '', exit_code: 0 })
    const environments = await Promise.all([id, other].map(async (one) => (await sbs.bash(one, 'echo $HOME; pwd')).output))
    expect(environments[0]).not.toBe(environments[1])
    // What the server was started with is its own.
    expect((await sbs.bash(id, 'env')).output).not.toContain('secret of the server')
  })

  test('[3-26] five steps at once are answered, one after the other', async () => {
    const cmd = 'test ! -e busy && touch busy && sleep 0.1 && rm busy && echo alone'
    const all = await Promise.all(Array.from({ length: 5 }, () => sbs.post(id, { sandbox_id: id, type: 'bash', payload: { cmd } })))
    expect(all.map(({ status, body }) => [status, body])).toEqual(Array(5).fill([200, { output: 'alone\n', error: '', exit_code: 0 }]))
  })

  test('[3-26] the steps of another session do not wait', async () => {
    const other = await sbs.create()
    const { output } = await sbs.bash(id, 'mkfifo door; echo -n "$PWD/door"')
    const waiting = sbs.bash(id, 'cat door')
    // A writer of a pipe that nobody reads would wait itself: this one ends because the other step runs.
    expect(await sbs.bash(other, `echo opened >'${output}'; echo free`)).toEqual({ output: 'free\n', error: '', exit_code: 0 })
    expect((await waiting).output).toBe('opened\n')
  })

  test('[3-27] stdin is empty', async () => {
    expect(await sbs.bash(id, 'cat; echo end')).toEqual({ output: 'end\n', error: '', exit_code: 0 })
    expect(await sbs.python(id, 'import sys; print(repr(sys.stdin.read()))')).toEqual({ output: "''\n", error: '', exit_code: 0 })
  })

  test('[3-28] a MiB of each stream and a notice; the step is not stopped by what is dropped', async () => {
    const { output, error, exit_code } = await sbs.bash(
      id,
      'head -c 3000000 /dev/zero | tr "\\0" o; head -c 2000000 /dev/zero | tr "\\0" e >&2; exit 4',
    )
    expect(exit_code).toBe(4)
    expect(output.slice(0, MiB)).toBe('o'.repeat(MiB))
    expect(output.slice(MiB)).toBe(`\n... [clipped: 3000000 bytes in all, the first ${MiB} are shown]\n`)
    expect(error.slice(0, MiB)).toBe('e'.repeat(MiB))
    expect(error.slice(MiB)).toBe(`\n... [clipped: 2000000 bytes in all, the first ${MiB} are shown]\n`)
  })

  test('[3-28] exactly a MiB is whole', async () => {
    const { output } = await sbs.bash(id, `head -c ${MiB} /dev/zero | tr '\\0' o`)
    expect(output).toBe('o'.repeat(MiB))
  })

  test('[3-28] bytes that are no UTF-8 are replaced', async () => {
    expect(await sbs.bash(id, "printf 'a\\xff\\xc3b'")).toEqual({ output: 'a\ufffd\ufffdb', error: '', exit_code: 0 })
  })
})

describe('what is told of it', () => {
  test('[3-61, 3-62] the log has the history of each session: every step from its arrival to its end', async () => {
    await sbs.bash(id, 'exit 3')
    await sbs.python(id, 'import os; os.kill(os.getpid(), 9)')
    await sbs.close(id)
    const history = server.log().filter(({ session_id }) => session_id === id)
    expect(history.map(({ event, type, exit_code }) => [event, type, exit_code])).toEqual([
      ['session_created', undefined, undefined],
      ['step_received', 'bash', undefined],
      ['step_started', 'bash', undefined],
      ['step_finished', 'bash', 3],
      ['step_received', 'python', undefined],
      ['step_started', 'python', undefined],
      ['execution_failed', 'python', 137],
      ['step_finished', 'python', 137],
      ['session_closed', undefined, undefined],
    ])
    expect(history.every(({ msg, event }) => msg === event)).toBe(true)
  })

  test('[3-62] execution_failed tells of a step that could not start, not of one that failed by itself', async () => {
    await sbs.bash(id, 'exit 1')
    expect(server.log().some(({ event, session_id }) => event === 'execution_failed' && session_id === id)).toBe(false)
    await sbs.bash(id, 'rm -r "$PWD"')
    expect((await sbs.bash(id, 'true')).exit_code).toBe(126)
    expect(server.log().find(({ event, session_id }) => event === 'execution_failed' && session_id === id)).toMatchObject({
      exit_code: 126,
    })
  })
})
