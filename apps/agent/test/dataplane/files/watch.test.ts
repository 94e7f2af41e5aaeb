import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { endedAfterEach } from '../../support/ended-after-each.ts'
import { eventually } from '../../support/eventually.ts'
import { WatchClient } from '../../support/watch-client.ts'

let dp: TestDataplane
const ended = endedAfterEach()

beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

const at = (path: string): string => join(dp.sandbox.workspacePath, path)

const watch = async (query: Record<string, string>): Promise<WatchClient> => ended(await WatchClient.open(dp, { query }))

test('changes in a directory come with the paths of other calls, and not those below it', async () => {
  await mkdir(at('plain/inner'), { recursive: true })
  const client = await watch({ path: '/workspace/./plain/' })
  expect(client.frames).toEqual([{ type: 'ready', path: 'plain', recursive: false }])
  await dp.exec({ command: 'echo > inner/deep; echo > a; mv a b; chmod 600 b; rm b; mkdir made', cwd: 'plain' })
  expect(await client.upTo('create plain/made/')).toEqual([
    'create plain/a',
    'write plain/a',
    'rename plain/a',
    'create plain/b',
    'chmod plain/b',
    'remove plain/b',
    'create plain/made/',
  ])
})

test('an upload is one file that is created and written, and its temporary name is never told', async () => {
  await mkdir(at('uploads'))
  const client = await watch({ path: 'uploads' })
  await dp.upload('uploads/new', 'one')
  await dp.upload('uploads/new', 'two')
  await dp.fetch('/files?path=uploads/new', { method: 'DELETE' })
  const told = await client.upTo('remove uploads/new')
  expect(new Set(told)).toEqual(new Set(['create uploads/new', 'write uploads/new', 'remove uploads/new']))
  expect(told.filter((change) => change === 'write uploads/new')).toHaveLength(2)
})

test('a recursive watch of the workspace follows new directories, and what was moved in and out', async () => {
  await mkdir(at('deep/old'), { recursive: true })
  await mkdir(at('outside/full'), { recursive: true })
  await writeFile(at('outside/full/file'), '')
  const client = await watch({ path: 'deep', recursive: 'true' })
  await mkdir(at('deep/a/b/c'), { recursive: true })
  await writeFile(at('deep/a/b/c/file'), 'x')
  await client.upTo('create deep/a/b/c/file')
  await writeFile(at('deep/a/b/c/file'), 'y')
  await client.upTo('write deep/a/b/c/file')
  await rename(at('outside/full'), at('deep/full'))
  expect(await client.upTo('create deep/full/file')).toContain('create deep/full/')
  await rename(at('deep/full'), at('outside/gone'))
  await client.upTo('rename deep/full/')
  await writeFile(at('outside/gone/unseen'), '')
  await writeFile(at('deep/old/last'), '')
  expect((await client.upTo('create deep/old/last')).filter((change) => change.includes('unseen'))).toEqual([])
})

test('a watch ends when its directory is removed', async () => {
  await mkdir(at('short'))
  const client = await watch({ path: 'short', recursive: 'true' })
  await rm(at('short'), { recursive: true })
  expect(await client.closed).toMatchObject({ code: 1000 })
  expect(client.frames.at(-1)).toEqual({ type: 'end', reason: 'removed' })
})

test('what cannot be watched is refused before the upgrade', async () => {
  await writeFile(at('file'), '')
  await symlink('/etc', at('out'))
  const refused = (query: Record<string, string>): Promise<unknown> => WatchClient.refused(dp, { query })
  expect(await refused({ path: 'missing' })).toEqual({ status: 404, code: 'FILE_NOT_FOUND' })
  expect(await refused({ path: 'file' })).toMatchObject({ code: 'NOT_A_DIRECTORY' })
  expect(await refused({ path: 'out' })).toEqual({ status: 400, code: 'INVALID_PATH' })
  expect(await refused({ path: '../..' })).toEqual({ status: 400, code: 'INVALID_PATH' })
  expect(await refused({ path: '/etc' })).toEqual({ status: 400, code: 'INVALID_PATH' })
  expect(await refused({ path: 'x'.repeat(5000) })).toEqual({ status: 400, code: 'INVALID_PATH' })
  expect(await refused({ root: 'sandbox', path: '/' })).toEqual({ status: 501, code: 'UNSUPPORTED' })
  expect(await refused({ recursive: 'perhaps' })).toEqual({ status: 400, code: 'INVALID_REQUEST' })
})

test('a token is needed, and it has to grant fs_read', async () => {
  expect(await WatchClient.refused(dp, { token: null })).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
  const token = await dp.sign({ caps: ['exec', 'shell', 'fs_write'] })
  expect(await WatchClient.refused(dp, { token })).toMatchObject({ status: 403 })
})

test('a sandbox has eight watches; the ninth is 429 until one of them closes', async () => {
  await mkdir(at('eight'))
  const clients: WatchClient[] = []
  // Those of the tests before are let go of a moment after their close.
  await eventually(async () => {
    while (clients.length < 8) clients.push(await watch({ path: 'eight' }))
  })
  expect(await WatchClient.refused(dp, { query: { path: 'eight' } })).toEqual({ status: 429, code: 'RATE_LIMITED' })
  await writeFile(at('eight/all'), '')
  await Promise.all(clients.map((client) => client.upTo('create eight/all')))
  await clients[0]?.close()
  await eventually(async () => void (await watch({ path: 'eight' })))
})

test('a token is renewed on the socket, a ping is answered, and what is no frame ends it', async () => {
  const client = await watch({})
  client.send({ type: 'ping', id: 7 })
  client.send({ type: 'auth', token: await dp.sign({}) })
  await client.until(() => client.frames.some(({ type }) => type === 'auth_ok'))
  expect(client.frames).toContainEqual({ type: 'pong', id: 7 })
  client.ws.send('nonsense')
  expect(await client.closed).toMatchObject({ reason: 'INVALID_REQUEST' })
  expect(client.frames.at(-1)).toMatchObject({ type: 'error', error: { code: 'INVALID_REQUEST' } })
})

test('a client that does not read loses changes, is told so, and hears of what comes later', async () => {
  // Long paths: few changes are more than all the buffers on the way hold.
  const deep = `busy/${Array(12).fill('d'.repeat(240)).join('/')}`
  await mkdir(at(deep), { recursive: true })
  const client = await watch({ path: 'busy', recursive: 'true' })
  client.ws.pause()
  await dp.exec({ command: 'for i in $(seq 1 6000); do : > file-$i; done; rm -rf *', cwd: deep })
  client.ws.resume()
  await client.until(() => client.overflows > 0)
  // While changes of before are still on the way, another overflow may stand for this one.
  let later = ''
  for (let i = 0; !client.changes.includes(`create ${later}/`); i++) {
    const { overflows } = client
    later = `busy/later-${i}`
    await mkdir(at(later))
    await client.until(() => client.overflows > overflows || client.changes.includes(`create ${later}/`))
  }
  await writeFile(at(`${later}/file`), '')
  await client.upTo(`create ${later}/file`)
})
