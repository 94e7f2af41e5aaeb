import { ErrorEnvelope } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { fileError, processError } from '../../../src/supervisor/faults.ts'
import { TestDataplane } from '../../support/dataplane.ts'
import { TestSocket } from '../../support/socket.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ profile: { max_execs: 1 } })
  await dp.exec({
    command: 'mkdir -p dir/below; echo x > file; echo y > dir/file; mkfifo fifo; ln -s /etc/passwd out; ln -s loop loop',
    exec_id: 'set-up',
  })
})
afterAll(() => dp[Symbol.asyncDispose]())

type Row = [name: string, send: () => Promise<Response>, status: number, code: string, says: RegExp]

const put = (path: string, query = '', init: RequestInit = {}): Promise<Response> =>
  dp.fetch(`/files/upload?path=${path}${query}`, { method: 'POST', body: 'new', ...init })
const move = (from: string, to: string, overwrite = false): Promise<Response> => dp.post('/files/move', { from, to, overwrite })
const mkdir = (path: string, parents?: boolean): Promise<Response> => dp.post('/files/mkdir', { path, parents })
const remove = (path: string): Promise<Response> => dp.fetch(`/files?path=${path}`, { method: 'DELETE' })
const LONG = 'n'.repeat(300)

/** What was refused, by its name; and after that what to do. */
const rows: Row[] = [
  ['a directory over a file', () => mkdir('file'), 409, 'FILE_EXISTS', /^"file" exists already .*a file has to be removed first/],
  ['a directory that is there, without parents', () => mkdir('dir', false), 409, 'FILE_EXISTS', /^"dir" exists already .*parents=true/],
  ['a directory without its parent', () => mkdir('no/where', false), 404, 'FILE_NOT_FOUND', /^"no\/where" .*pass parents=true/],
  [
    'a directory below a file',
    () => mkdir('file/x'),
    400,
    'NOT_A_DIRECTORY',
    /^"file\/x" is not a directory, or one of its parents is not; choose/,
  ],
  ['an upload over a file', () => put('file', '&overwrite=false'), 409, 'FILE_EXISTS', /^"file" exists already; pass overwrite=true/],
  ['an upload over a directory', () => put('dir'), 400, 'IS_DIRECTORY', /^"dir" is a directory; give the path of a file/],
  ['an upload below a file', () => put('file/x'), 400, 'NOT_A_DIRECTORY', /^"file\/x" .*choose another path/],
  ['an upload out of the workspace', () => put('../x'), 400, 'INVALID_PATH', /^path "\.\.\/x" leads outside of the workspace/],
  ['an upload through a link', () => put('out'), 400, 'INVALID_PATH', /^"out" leads outside of the workspace by a link; give a path/],
  ['an upload through a circle', () => put('loop/x'), 400, 'INVALID_PATH', /^"loop\/x" goes through too many links; give/],
  ['a name that is too long', () => put(LONG), 400, 'INVALID_PATH', /^"n+" has a part that is too long; at most 255 bytes/],
  [
    'another ETag',
    () => put('file', '', { headers: { 'If-Match': '"other"' } }),
    412,
    'PRECONDITION_FAILED',
    /^"file" has changed.*read it again/,
  ],
  ['an odd mode', () => put('x', '&mode=99'), 400, 'INVALID_REQUEST', /^mode: must be octal/],
  ['a download of nothing', () => dp.fetch('/files/download?path=none'), 404, 'FILE_NOT_FOUND', /^"none" does not exist/],
  ['a download of a directory', () => dp.fetch('/files/download?path=dir'), 400, 'IS_DIRECTORY', /^"dir" is a directory; pass archive=tar/],
  ['a download of a fifo', () => dp.fetch('/files/download?path=fifo'), 400, 'NOT_A_FILE', /^"fifo" is a fifo.*only regular files/],
  ['a download through a link', () => dp.fetch('/files/download?path=out'), 400, 'INVALID_PATH', /^"out" leads outside.*give a path/],
  [
    'an archive of a file',
    () => dp.fetch('/files/download?path=file&archive=tar'),
    400,
    'NOT_A_DIRECTORY',
    /^"file" is not a directory; leave archive away/,
  ],
  ['a listing of a file', () => dp.fetch('/files?path=file'), 400, 'NOT_A_DIRECTORY', /^"file" is not a directory.*GET \/files\/stat/],
  ['a stat of nothing', () => dp.fetch('/files/stat?path=none'), 404, 'FILE_NOT_FOUND', /^"none" does not exist/],
  ['no path', () => dp.fetch('/files/stat'), 400, 'INVALID_REQUEST', /^path: missing/],
  ['a removal of nothing', () => remove('none'), 404, 'FILE_NOT_FOUND', /^"none" does not exist/],
  ['a removal of a full directory', () => remove('dir'), 400, 'DIRECTORY_NOT_EMPTY', /^"dir" .*pass recursive=true/],
  ['a removal of the root', () => remove('.'), 400, 'INVALID_PATH', /^path "\." is the root/],
  ['a move of nothing', () => move('none', 'x'), 404, 'FILE_NOT_FOUND', /^"none" does not exist/],
  ['a move onto a file', () => move('dir/file', 'file'), 409, 'FILE_EXISTS', /^"file" exists already; pass overwrite=true/],
  ['a move of a file onto a directory', () => move('file', 'dir', true), 400, 'IS_DIRECTORY', /^"dir" is a directory; /],
  [
    'a move of a directory onto a file',
    () => move('dir', 'file', true),
    400,
    'NOT_A_DIRECTORY',
    /^"file" is not a directory.*choose another path/,
  ],
  ['a move of a directory onto a full one', () => move('dir/below', 'dir', true), 400, 'DIRECTORY_NOT_EMPTY', /^"dir" .*remove it first/],
  [
    'a move of a directory into itself',
    () => move('dir', 'dir/below/x'),
    400,
    'INVALID_PATH',
    /^"dir" or "dir\/below\/x" .*cannot go into itself/,
  ],
  [
    'another command under an id',
    () => dp.post('/exec', { command: 'false', exec_id: 'set-up' }),
    409,
    'EXEC_CONFLICT',
    /^The id "set-up" .*choose another id/,
  ],
  ['an unknown exec', () => dp.fetch('/execs/nobody'), 404, 'EXEC_NOT_FOUND', /^There is no exec or shell "nobody".*GET \/execs/],
  ['the output of an unknown exec', () => dp.fetch('/execs/nobody/output'), 404, 'EXEC_NOT_FOUND', /"nobody".*GET \/execs/],
  [
    'a signal for an unknown exec',
    () => dp.post('/execs/nobody/signal', { signal: 'TERM' }),
    404,
    'EXEC_NOT_FOUND',
    /"nobody".*GET \/execs/,
  ],
  [
    'a signal for one that has ended',
    () => dp.post('/execs/set-up/signal', { signal: 'TERM' }),
    409,
    'PROCESS_NOT_RUNNING',
    /^"set-up" has ended.*GET \/execs\/set-up/,
  ],
  ['an unknown signal', () => dp.post('/execs/set-up/signal', { signal: 'NOPE' }), 400, 'INVALID_REQUEST', /^signal: /],
  [
    'output beyond the end',
    () => dp.fetch('/execs/set-up/output?offset=99'),
    400,
    'INVALID_REQUEST',
    /^offset: beyond .*"set-up".*X-Stream-Next-Offset/,
  ],
  ['a stream that is none', () => dp.fetch('/execs/set-up/output?stream=x'), 400, 'INVALID_REQUEST', /^stream: must be one of/],
  ['no command', () => dp.post('/exec', {}), 400, 'INVALID_REQUEST', /^command, argv: give exactly one/],
]

describe('a refusal names what was refused and what to do, and nothing of the host', () => {
  test.each(rows)('%s', async (_name, send, status, code, says) => {
    const response = await send()
    const { error } = ErrorEnvelope.parse(await response.json())
    expect([response.status, error.code]).toEqual([status, code])
    expect(error.message).toMatch(says)
    expect(JSON.stringify(error)).not.toContain(dp.sandbox.directory)
  })

  test('one exec more than the profile allows', async () => {
    const running = new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token })
    await running.frame('auth_ok')
    running.start({ argv: ['cat'] })
    await running.frame('ready')
    const response = await dp.post('/exec', { command: 'true' })
    expect([response.status, response.headers.get('Retry-After')]).toEqual([429, '1'])
    expect(ErrorEnvelope.parse(await response.json()).error).toMatchObject({
      code: 'RATE_LIMITED',
      message: expect.stringMatching(/wait for one to end/),
      details: { limit: 'max_execs' },
    })
    running.send({ type: 'close' })
    await running.closed
  })

  test.each([
    [{ attach: 'nobody' }, 4404, /"nobody"/],
    [{ attach: 'set-up', stdout_offset: 99 }, 4400, /^stdout_offset, stderr_offset: beyond .*"end"/],
    [{ command: 'false', exec_id: 'set-up' }, 4409, /^The id "set-up" .*choose another id/],
  ])('a start frame %j', async (start, close, says) => {
    const socket = new TestSocket(`${dp.wsBase}/exec/ws`, 'json', { token: dp.token })
    await socket.frame('auth_ok')
    socket.start(start)
    expect((await socket.closed).code).toBe(close)
    expect(socket.find('error')?.error.message).toMatch(says)
  })
})

/** What no test can bring about at will; the rest of WIRE.md's kinds with what the supervisor could say of its inside. */
describe('faults of the supervisor', () => {
  const message = '/var/lib/agent/inside: Something (os error 5)'
  const kinds = [
    ...['not_found', 'exists', 'conflict', 'escapes', 'permission_denied', 'read_only', 'is_directory', 'not_a_directory', 'not_a_file'],
    ...['not_empty', 'no_space', 'gone', 'not_running', 'busy', 'bad_request', 'changed', 'other', 'of a later version'],
  ]

  test.each(kinds)('%s: no answer repeats what only the log may know', (kind) => {
    for (const op of ['read', 'write', 'stat', 'list', 'mkdir', 'move', 'remove', 'symlink']) {
      for (const errno of [null, 'EIO', 'EBUSY', 'EXDEV', 'ELOOP']) {
        const error = fileError({ kind, errno, message }, { op, given: 'a', ...(op === 'move' ? { to: 'b' } : {}) })
        expect(error.message).not.toContain('/var/lib')
        if (error.code !== 'INTERNAL') expect(error.message).toMatch(/^"[ab]" /)
      }
    }
    for (const op of ['start', 'attach', 'get', 'signal', 'resize', 'output', 'wait']) {
      for (const reading of [true, false]) {
        const error = processError({ kind, errno: null, message }, { op, id: 'p1', reading })
        expect(error.message).not.toContain('/var/lib')
        if (!error.retryable && error.code !== 'INTERNAL') expect(error.message).toContain('"p1"')
      }
    }
  })

  test.each([
    ['no_space', null, 'QUOTA_EXCEEDED', /^"a" does not fit.*delete something/],
    ['read_only', 'EROFS', 'READ_ONLY', /^"a" is on a read-only file system; choose/],
    ['permission_denied', 'EACCES', 'PERMISSION_DENIED', /^"a" is not accessible.*choose another path/],
    ['busy', 'ETXTBSY', 'PERMISSION_DENIED', /^"a" is in use.*choose another path/],
    ['busy', null, 'RATE_LIMITED', /^"a" was not touched.*try again/],
    ['other', 'EXDEV', 'INVALID_PATH', /^"a" is on another file system.*mv in an exec/],
    ['other', 'EIO', 'INTERNAL', /the log has the request_id/],
  ])('%s, %s is %s', (kind, errno, code, says) => {
    expect(fileError({ kind, errno, message }, { op: 'write', given: 'a' })).toMatchObject({ code, message: expect.stringMatching(says) })
  })

  test('a reader that fell behind is told to come back by offset; a start while the sandbox stops, to try again', () => {
    const fault = { kind: 'gone', errno: null, message }
    expect(processError(fault, { op: 'attach', id: 'p1', reading: true })).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringMatching(/attach again at the offset/),
    })
    expect(processError(fault, { op: 'start', id: 'p1' })).toMatchObject({ code: 'SANDBOX_STARTING', retryable: true })
  })
})
