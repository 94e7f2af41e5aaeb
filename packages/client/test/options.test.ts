import { describe, expect } from 'vitest'
import type { Session } from '../src/index.ts'
import { test } from './fixture/server-test.ts'

/** As plain JavaScript calls it: no compiler has seen the options. */
type Untyped = (...given: unknown[]) => Promise<unknown>
type Options = Record<string, unknown>

const CALLS: [string, (session: Session, options: Options) => Promise<unknown>][] = [
  ['exec', (session, options) => (session.exec as Untyped)('true', options)],
  ['exec', (session, options) => (session.exec.orThrow as Untyped)('true', options)],
  ['exec.start', (session, options) => (session.exec.start as Untyped)('true', options)],
  ['exec.attach', (session, options) => (session.exec.attach as Untyped)('run-1', options)],
  ['exec.list', (session, options) => session.exec.list(options as object)],
  ['exec.get', (session, options) => session.exec.get('run-1', options as object)],
  ['exec.output', (session, options) => session.exec.output('run-1', options as object)],
  ['exec.signal', (session, options) => session.exec.signal('run-1', 'INT', options as object)],
  ['exec.kill', (session, options) => session.exec.kill('run-1', options as object)],
  ['shell', (session, options) => session.shell(options as object)],
  ['processes.start', (session, options) => session.processes.start('true', options as object)],
  ['processes.attach', (session, options) => session.processes.attach('p', options as object)],
  ['files.upload', (session, options) => session.files.upload('a', 'x', options as object)],
  ['files.uploadMany', (session, options) => session.files.uploadMany({ a: 'x' }, options as object)],
  ['files.downloadMany', (session, options) => session.files.downloadMany(['a'], options as object)],
  ['files.download', (session, options) => session.files.download('a', options as object)],
  ['files.text', (session, options) => session.files.text('a', options as object)],
  ['files.stream', (session, options) => session.files.stream('a', options as object)],
  ['files.list', (session, options) => session.files.list('a', options as object)],
  ['files.stat', (session, options) => session.files.stat('a', options as object)],
  ['files.exists', (session, options) => session.files.exists('a', options as object)],
  ['files.mkdir', (session, options) => session.files.mkdir('a', options as object)],
  ['files.move', (session, options) => session.files.move('a', 'b', options as object)],
  ['files.delete', (session, options) => session.files.delete('a', options as object)],
  ['files.uploadArchive', (session, options) => session.files.uploadArchive('a', 'x', options as object)],
  ['files.downloadArchive', (session, options) => session.files.downloadArchive('a', options as object)],
  ['events', (session, options) => session.events(options as object).next()],
  ['release', (session, options) => session.release(options as object)],
]

describe('an option that a call does not have', () => {
  for (const [call, ask] of CALLS) {
    test(`is refused by ${call}, by its name, before anything is sent`, async ({ server, session }) => {
      const before = server.requests.length
      await expect(ask(session, { siganl: AbortSignal.timeout(60_000) })).rejects.toMatchObject({
        code: 'INVALID_REQUEST',
        message: expect.stringMatching(new RegExp(`^${call}: there is no option "siganl"; (did you mean signal\\?|it has keepWorkspace)`)),
      })
      expect(server.requests).toHaveLength(before)
    })
  }

  test('is told with the one that was meant', async ({ session, server }) => {
    const said = (work: Promise<unknown>) => work.then(() => 'accepted').catch((error: Error) => error.message)
    const exec = (options: object) => said(session.exec('true', options))
    expect(await exec({ timeout: 1 })).toBe('exec: there is no option "timeout"; did you mean timeoutSeconds?')
    expect(await exec({ max_output_bytes: 1 })).toBe('exec: there is no option "max_output_bytes"; did you mean maxOutputBytes?')
    expect(await exec({ workdir: 'a' })).toMatch(/^exec: there is no option "workdir"; it has cwd, env, shell, /)
    expect(await said(server.client().session('t', { profil: 'x' } as object))).toMatch(/did you mean profile\?$/)
    expect(() => server.client({ apikey: 'x' } as object)).toThrow('connect: there is no option "apikey"; did you mean apiKey?')
    expect(await said((session.exec as Untyped)('true', 'fast'))).toBe('exec: the options are an object, not "fast"')
  })

  test('that is undefined was not given', async ({ session, server }) => {
    server.intercept = ({ path }) => (path.includes('/files/stat') ? { status: 404, json: NO_FILE } : undefined)
    expect(await session.files.exists('a', { timeout: undefined } as object)).toBe(false)
  })
})

const NO_FILE = { error: { code: 'FILE_NOT_FOUND', message: 'no', retryable: false, request_id: 'req_1' }, detail: 'no' }
