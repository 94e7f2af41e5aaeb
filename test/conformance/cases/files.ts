import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { type Case, check } from '../case.ts'
import { refused } from '../expect.ts'
import type { Grant, Target } from '../target.ts'

const q = (fields: Record<string, string>): string => `?${new URLSearchParams(fields)}`
const put = (t: Target, grant: Grant, path: string, body: string | Uint8Array | FormData, fields = {}, headers = {}) =>
  t.dp(grant, 'POST', `/files/upload${q({ path, ...fields })}`, { body, headers })
const get = (t: Target, grant: Grant, path: string, headers = {}, fields = {}) =>
  t.dp(grant, 'GET', `/files/download${q({ path, ...fields })}`, { headers })
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** Contract 3.8 and 3.9: files. */
export const fileCases: readonly Case[] = [
  check('4-103, 4-104, C-61', '10 MiB go in and come out as they were; 0 bytes too', async (t) => {
    const grant = await t.shared()
    const bytes = randomBytes(10 * 1024 * 1024)
    assert.deepEqual((await put(t, grant, 'deep/ten.bin', bytes)).body, { path: 'deep/ten.bin', size: bytes.length, created: true })
    const back = await get(t, grant, 'deep/ten.bin')
    assert.equal(sha256(back.bytes), sha256(bytes))
    assert.deepEqual(
      [back.headers.get('content-length'), back.headers.get('content-type')],
      [String(bytes.length), 'application/octet-stream'],
    )
    assert.equal((await put(t, grant, 'empty', '')).body.size, 0)
    assert.equal((await get(t, grant, 'empty')).bytes.length, 0)
  }),
  check('4-103', 'a multipart upload, field file', async (t) => {
    const grant = await t.shared()
    const form = new FormData()
    form.append('file', new Blob(['multi']), 'name.txt')
    assert.equal((await put(t, grant, 'form.txt', form)).body.size, 5)
    assert.equal((await get(t, grant, 'form.txt')).text, 'multi')
  }),
  check('C-61', 'overwrite=false and preconditions keep what is there', async (t) => {
    const grant = await t.shared()
    const etag = async () => String((await get(t, grant, 'kept')).headers.get('etag'))
    await put(t, grant, 'kept', 'one')
    refused(await put(t, grant, 'kept', 'two', { overwrite: 'false' }), 409, 'FILE_EXISTS')
    refused(await put(t, grant, 'kept', 'two', {}, { 'if-none-match': '*' }), 409, 'FILE_EXISTS')
    refused(await put(t, grant, 'kept', 'two', {}, { 'if-match': '"other"' }), 412, 'PRECONDITION_FAILED')
    assert.equal((await put(t, grant, 'kept', 'three', {}, { 'if-match': await etag() })).status, 200)
    assert.equal((await get(t, grant, 'kept')).text, 'three')
  }),
  check('4-108', 'more than the profile allows is 413, and nothing is left', async (t) => {
    const grant = await t.ensure({ profile: 'conformance-small' })
    refused(await put(t, grant, 'big', new Uint8Array(1_048_577)), 413, 'PAYLOAD_TOO_LARGE')
    assert.equal((await put(t, grant, 'fits', new Uint8Array(1_048_576))).status, 200)
    const list = await t.dp<{ files: { path: string }[] }>(grant, 'GET', '/files')
    assert.deepEqual(
      list.body.files.map(({ path }) => path),
      ['fits'],
    )
  }),
  check('4-104', 'ranges, validators, HEAD, and what is no file', async (t) => {
    const grant = await t.shared()
    await put(t, grant, 'digits', '0123456789')
    const part = await get(t, grant, 'digits', { range: 'bytes=2-4' })
    assert.deepEqual([part.status, part.text, part.headers.get('content-range')], [206, '234', 'bytes 2-4/10'])
    const whole = await get(t, grant, 'digits')
    const etag = String(whole.headers.get('etag'))
    assert.equal((await get(t, grant, 'digits', { 'if-none-match': etag })).status, 304)
    assert.equal((await get(t, grant, 'digits', { range: 'bytes=2-4', 'if-range': '"other"' })).status, 200)
    refused(await get(t, grant, 'digits', { range: 'bytes=20-' }), 416, 'RANGE_NOT_SATISFIABLE')
    const head = await t.dp(grant, 'HEAD', `/files/download${q({ path: 'digits' })}`)
    assert.deepEqual([head.status, head.headers.get('content-length'), head.bytes.length], [200, '10', 0])
    refused(await get(t, grant, '.'), 400, 'IS_DIRECTORY')
    refused(await get(t, grant, 'nonesuch'), 404, 'FILE_NOT_FOUND')
  }),
  check('4-104', 'a directory comes as tar, and goes in as tar', async (t) => {
    const grant = await t.shared()
    await put(t, grant, 'tree/a/one', '1')
    await put(t, grant, 'tree/two', '22')
    const tar = await get(t, grant, 'tree', {}, { archive: 'tar' })
    assert.equal(tar.status, 200)
    assert.equal((await put(t, grant, 'copy', tar.bytes, { archive: 'tar' })).status, 200)
    assert.equal((await t.exec(grant, 'cd copy && cat a/one two')).body.stdout, '122')
  }),
  check('4-107', 'mkdir, upload, list, stat, move, delete', async (t) => {
    const grant = await t.shared()
    const stat = (path: string) => t.dp(grant, 'GET', `/files/stat${q({ path })}`)
    assert.equal((await t.dp(grant, 'POST', '/files/mkdir', { body: { path: 'way/down' } })).status, 200)
    assert.equal((await t.dp(grant, 'POST', '/files/mkdir', { body: { path: 'way/down' } })).status, 200)
    await put(t, grant, 'way/down/x.json', '{}')
    await put(t, grant, 'way/y.txt', 'y')
    const list = async (fields: Record<string, string>) =>
      (await t.dp<{ files: { path: string }[] }>(grant, 'GET', `/files${q({ path: 'way', ...fields })}`)).body.files.map(({ path }) => path)
    assert.deepEqual((await list({})).length, 2)
    assert.equal((await list({ pattern: '*.json' })).length, 1)
    assert.equal((await stat('way/y.txt')).body.size, 1)
    assert.equal((await t.dp(grant, 'POST', '/files/move', { body: { from: 'way/y.txt', to: 'way/z.txt' } })).status, 200)
    refused(await stat('way/y.txt'), 404, 'FILE_NOT_FOUND')
    refused(await t.dp(grant, 'DELETE', `/files${q({ path: 'way' })}`), 400, 'DIRECTORY_NOT_EMPTY')
    assert.equal((await t.dp(grant, 'DELETE', `/files${q({ path: 'way', recursive: 'true' })}`)).status, 204)
    refused(await stat('way'), 404, 'FILE_NOT_FOUND')
  }),
  check('4-106', 'paths that leave the workspace are refused; those of the guest mounts mean the same file', async (t) => {
    const grant = await t.shared()
    for (const path of ['../x', 'a/../../x', '/etc/passwd', '/tmp/x', 'nul\u0000x', '/workspace/../etc/passwd']) {
      refused(await get(t, grant, path), 400, 'INVALID_PATH')
      refused(await put(t, grant, path, 'x'), 400, 'INVALID_PATH')
    }
    await put(t, grant, '/app//one file \u00fc\n', 'same')
    assert.equal((await get(t, grant, '/workspace/one file \u00fc\n')).text, 'same')
  }),
  check('4-106', 'links that leave the workspace are followed neither to read nor to write', async (t) => {
    const grant = await t.shared()
    await t.exec(grant, 'ln -sfn /etc out; ln -sfn /etc/passwd leak; ln -sfn real inner; echo in > real')
    for (const path of ['out/passwd', 'leak']) {
      const read = await get(t, grant, path)
      assert.ok(read.status >= 400 && read.status < 500, `${path}: ${read.status}`)
      const write = await put(t, grant, path === 'leak' ? 'out/new' : path, 'x')
      assert.ok(write.status >= 400 && write.status < 500)
    }
    assert.equal((await get(t, grant, 'inner')).text, 'in\n')
  }),
  check('C-61', 'a fifo is no file, and opening it does not hang', async (t) => {
    const grant = await t.shared()
    await t.exec(grant, 'mkfifo -m 666 pipe 2>/dev/null || true')
    refused(await get(t, grant, 'pipe'), 400, 'NOT_A_FILE')
  }),
  check('3.8', 'root=sandbox reaches the file system of the sandbox with the rights of its user', async (t) => {
    const grant = await t.shared()
    assert.equal((await put(t, grant, '/tmp/by-root', 'r', { root: 'sandbox' })).status, 200)
    assert.equal((await get(t, grant, '/tmp/by-root', {}, { root: 'sandbox' })).text, 'r')
    const shadow = await get(t, grant, '/etc/shadow', {}, { root: 'sandbox' })
    assert.ok([403, 404].includes(shadow.status), String(shadow.status))
  }),
]
