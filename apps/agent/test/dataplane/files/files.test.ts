import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { collect } from '../../support/collect.ts'
import { TestDataplane } from '../../support/dataplane.ts'
import { until } from '../../support/processes.ts'
import { refused } from '../../support/refused.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ profile: { max_upload_bytes: 64 * 1024 * 1024 } })
})
afterAll(() => dp[Symbol.asyncDispose]())

const host = (path: string): string => join(dp.sandbox.workspacePath, path)
const query = (fields: Record<string, string>): string => `?${new URLSearchParams(fields)}`
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe('upload and download', { tags: ['4-103', '4-104'] }, () => {
  test('10 MiB arrive as they left; the answer says what it made', async () => {
    const bytes = randomBytes(10 * 1024 * 1024)
    const made = await dp.upload('deep/er/ten.bin', bytes, { mode: '0640' })
    expect([made.status, await made.json()]).toEqual([200, { path: 'deep/er/ten.bin', size: bytes.length, created: true }])
    expect(sha256(await readFile(host('deep/er/ten.bin')))).toBe(sha256(bytes))
    expect((await stat(host('deep/er/ten.bin'))).mode & 0o777).toBe(0o640)
    const got = await dp.download('/workspace/deep//er/./ten.bin')
    expect(sha256(new Uint8Array(await got.arrayBuffer()))).toBe(sha256(bytes))
    expect([got.headers.get('content-length'), got.headers.get('content-type')]).toEqual([String(bytes.length), 'application/octet-stream'])
    expect(await (await dp.upload('deep/er/ten.bin', 'less')).json()).toMatchObject({ created: false, size: 4 })
  })

  test('nothing is a file too', async () => {
    expect(await (await dp.upload('empty', '')).json()).toMatchObject({ size: 0, created: true })
    expect(await (await dp.download('empty')).text()).toBe('')
  })

  test('multipart, field file', async () => {
    const form = new FormData()
    form.append('note', 'ignored')
    form.append('file', new Blob([randomBytes(300_000)]), 'name.bin')
    expect(await (await dp.upload('form.bin', form)).json()).toMatchObject({ path: 'form.bin', size: 300_000 })
    const without = new FormData()
    without.append('other', 'x')
    expect(await refused(await dp.upload('form2.bin', without))).toEqual([400, 'INVALID_REQUEST'])
    await expect(stat(host('form2.bin'))).rejects.toThrow('ENOENT')
  })

  test.each(['spaces in it', 'Hello 世界 😀', 'new\nline', 'back\\slash', '-dash', '%41+b&c=d'])('the name %j', async (name) => {
    expect((await dp.upload(name, name)).status).toBe(200)
    expect(await readFile(host(name), 'utf8')).toBe(name)
    expect(await (await dp.download(name)).text()).toBe(name)
  })

  test('overwrite=false and If-None-Match: * keep what is there, also if it is empty', { tags: ['1-49'] }, async () => {
    await dp.upload('kept', '')
    expect(await refused(await dp.upload('kept', 'new', { overwrite: 'false' }))).toEqual([409, 'FILE_EXISTS'])
    expect(await refused(await dp.upload('kept', 'new', {}, { 'If-None-Match': '*' }))).toEqual([409, 'FILE_EXISTS'])
    expect(await readFile(host('kept'), 'utf8')).toBe('')
  })

  test('If-Match: the version that the client knows, or 412', async () => {
    await dp.upload('versioned', 'one')
    const etag = (await dp.download('versioned')).headers.get('etag') as string
    expect((await dp.upload('versioned', 'two', {}, { 'If-Match': etag })).status).toBe(200)
    expect(await refused(await dp.upload('versioned', 'three', {}, { 'If-Match': etag }))).toEqual([412, 'PRECONDITION_FAILED'])
    expect(await refused(await dp.upload('absent', 'x', {}, { 'If-Match': '*' }))).toEqual([412, 'PRECONDITION_FAILED'])
    expect(await readFile(host('versioned'), 'utf8')).toBe('two')
  })

  test('an upload that breaks at half leaves nothing, and the old file whole', { tags: ['C-61'] }, async () => {
    await dp.upload('atomic', 'old')
    const sent = request(`${dp.base}/files/upload?path=atomic`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${dp.token}`, 'Content-Length': 10_000_000 },
    })
    sent.on('error', () => {})
    sent.write(Buffer.alloc(5_000_000))
    await until('half of it is there', async () => (await dp.sandbox.unfinishedUploads()).length > 0)
    const listed = (await (await dp.fetch('/files?type=any&limit=10000')).json()) as { files: { path: string }[] }
    expect(listed.files.filter(({ path }) => path.includes('.boxoffice'))).toEqual([])
    sent.destroy()
    await until('it is cleaned up', async () => (await dp.sandbox.unfinishedUploads()).length === 0)
    expect(await readFile(host('atomic'), 'utf8')).toBe('old')
  })

  test('too large: refused at once when it is announced, in constant memory when it is not', {
    tags: ['4-108'],
    timeout: 120_000,
  }, async () => {
    const announced = request(`${dp.base}/files/upload?path=big`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${dp.token}`, 'Content-Length': 2 ** 31 },
    })
    announced.on('error', () => {})
    announced.flushHeaders()
    const status = await new Promise((resolve) => announced.on('response', (response) => resolve(response.resume().statusCode)))
    expect(status).toBe(413)
    announced.destroy()

    const chunk = Buffer.alloc(65536)
    collect()
    const before = process.memoryUsage().arrayBuffers
    const endless = request(`${dp.base}/files/upload?path=big`, { method: 'POST', headers: { Authorization: `Bearer ${dp.token}` } })
    endless.on('error', () => {})
    const answer = new Promise((resolve) => endless.on('response', (response) => resolve(response.resume().statusCode)))
    let sent = 0
    const send = (): void => {
      while (!endless.destroyed && sent < 2 ** 30) {
        sent += chunk.length
        if (!endless.write(chunk)) return void endless.once('drain', send)
      }
    }
    send()
    expect(await answer).toBe(413)
    endless.destroy()
    expect(sent).toBeLessThan(200 * 1024 * 1024)
    collect()
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(16 * 1024 * 1024)
    await expect(stat(host('big'))).rejects.toThrow('ENOENT')
  })
})

describe('parts and versions', { tags: ['4-104'] }, () => {
  beforeAll(async () => {
    await writeFile(host('ranged'), '0123456789')
  })

  test.each([
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=8-99', 206, '89', 'bytes 8-9/10'],
    ['bytes=-99', 206, '0123456789', 'bytes 0-9/10'],
    ['bytes=0-1,3-4', 200, '0123456789', null],
    ['lines=0-1', 200, '0123456789', null],
    ['bytes=5-2', 200, '0123456789', null],
  ])('Range: %s', async (range, status, text, contentRange) => {
    const response = await dp.download('ranged', { Range: range })
    expect([response.status, await response.text(), response.headers.get('content-range')]).toEqual([status, text, contentRange])
  })

  test('a range beyond the end is 416 with the size', async () => {
    const response = await dp.download('ranged', { Range: 'bytes=10-' })
    expect(response.headers.get('content-range')).toBe('bytes */10')
    expect(await refused(response)).toEqual([416, 'RANGE_NOT_SATISFIABLE'])
  })

  test('If-Range, If-None-Match, HEAD', async () => {
    const etag = (await dp.download('ranged')).headers.get('etag') as string
    expect((await dp.download('ranged', { Range: 'bytes=0-1', 'If-Range': etag })).status).toBe(206)
    expect((await dp.download('ranged', { Range: 'bytes=0-1', 'If-Range': '"other"' })).status).toBe(200)
    expect((await dp.download('ranged', { 'If-None-Match': etag })).status).toBe(304)
    expect((await dp.download('ranged', { 'If-None-Match': '"other"' })).status).toBe(200)
    const head = await dp.fetch('/files/download?path=ranged', { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), head.headers.get('etag'), await head.text()]).toEqual([200, '10', etag, ''])
    expect(Date.parse(head.headers.get('last-modified') as string)).toBeGreaterThan(0)
    expect((await dp.fetch('/files/download?path=none', { method: 'HEAD' })).status).toBe(404)
  })
})

describe('paths', { tags: ['4-106'] }, () => {
  test.each([
    '../x',
    'a/../../x',
    '/etc/passwd',
    '/tmp/evil',
    '/workspace/../etc/passwd',
    '/workspacex/a',
    '/',
    'a\0b',
    '..',
    'a/b/../../..',
  ])('%j is INVALID_PATH for read and write', async (path) => {
    expect(await refused(await dp.download(path))).toEqual([400, 'INVALID_PATH'])
    expect(await refused(await dp.upload(path, 'x'))).toEqual([400, 'INVALID_PATH'])
    expect(await refused(await dp.fetch(`/files/stat${query({ path })}`))).toEqual([400, 'INVALID_PATH'])
    expect(await refused(await dp.post('/files/move', { from: path, to: 'y' }))).toEqual([400, 'INVALID_PATH'])
  })

  test.each(['/workspace/seen', '/app/seen', './seen', 'a/../seen', '//workspace//seen'])('%s is the same file', async (path) => {
    await writeFile(host('seen'), 'x')
    expect(await (await dp.download(path)).text()).toBe('x')
  })

  test('a query that is not UTF-8 is refused', async () => {
    expect((await dp.fetch('/files/download?path=%ff')).status).toBe(400)
  })

  test('links inside are followed; one that leads outside is refused for read and write, and deleted as a link', {
    tags: ['1-55'],
  }, async () => {
    await writeFile(host('target'), 'inside')
    await symlink('target', host('link-in'))
    await symlink('/etc/passwd', host('link-out'))
    await symlink('/etc', host('dir-out'))
    expect(await (await dp.download('link-in')).text()).toBe('inside')
    for (const path of ['link-out', 'dir-out/passwd']) {
      expect(await refused(await dp.download(path))).toEqual([400, 'INVALID_PATH'])
    }
    expect(await refused(await dp.upload('dir-out/evil', 'x'))).toEqual([400, 'INVALID_PATH'])
    expect((await dp.fetch('/files?path=link-out', { method: 'DELETE' })).status).toBe(204)
    expect(await readFile('/etc/passwd', 'utf8')).toContain('root')
  })

  test('fifos, devices and sockets are NOT_A_FILE within a second', { tags: ['C-61'] }, async () => {
    spawnSync('mkfifo', [host('fifo')])
    const started = performance.now()
    expect(await refused(await dp.download('fifo'))).toEqual([400, 'NOT_A_FILE'])
    expect(performance.now() - started).toBeLessThan(30_000)
  })

  test('what is missing, a directory, or not a directory; messages hold the path as given', { tags: ['1-46'] }, async () => {
    await mkdir(host('folder'), { recursive: true })
    await writeFile(host('plain'), 'x')
    expect(await refused(await dp.download('no/such'))).toEqual([404, 'FILE_NOT_FOUND'])
    expect(await refused(await dp.download('folder'))).toEqual([400, 'IS_DIRECTORY'])
    expect(await refused(await dp.upload('folder', 'x'))).toEqual([400, 'IS_DIRECTORY'])
    expect(await refused(await dp.upload('plain/below', 'x'))).toEqual([400, 'NOT_A_DIRECTORY'])
    const { detail } = (await (await dp.download('/workspace/no/such')).json()) as { detail: string }
    expect(detail).toContain('"/workspace/no/such"')
    expect(detail).not.toContain(dp.sandbox.directory)
  })

  test('root=sandbox is refused without isolation', async () => {
    expect(await refused(await dp.download('/tmp/x', {}, { root: 'sandbox' }))).toEqual([501, 'UNSUPPORTED'])
  })
})

describe('tree', { tags: ['4-107'] }, () => {
  const list = async (
    fields: Record<string, string>,
  ): Promise<{
    files: { path: string; type: string; mode: string; size: number; mtime: string }[]
    truncated: boolean
    next_cursor: string | null
  }> => (await dp.fetch(`/files${query(fields)}`)).json() as never

  beforeAll(async () => {
    for (const path of ['a.json', 'b.py', 'sub/c.json', 'sub/deep/d.json', 'sub/deep/e.py']) await dp.upload(`tree/${path}`, path)
  })

  test('files only, sorted, relative, recursive', async () => {
    const { files, truncated, next_cursor } = await list({ path: 'tree' })
    expect(files.map(({ path }) => path)).toEqual([
      'tree/a.json',
      'tree/b.py',
      'tree/sub/c.json',
      'tree/sub/deep/d.json',
      'tree/sub/deep/e.py',
    ])
    expect([truncated, next_cursor]).toEqual([false, null])
    expect(files[0]).toMatchObject({ type: 'file', size: 6, mode: '0644' })
    expect(Date.parse(files[0]?.mtime as string)).toBeGreaterThan(Date.now() - 600_000)
  })

  test.each([
    [{ pattern: '*.json' }, ['tree/a.json', 'tree/sub/c.json', 'tree/sub/deep/d.json']],
    [{ pattern: '**/*.py' }, ['tree/b.py', 'tree/sub/deep/e.py']],
    [{ pattern: 'sub/*.json' }, ['tree/sub/c.json']],
    [{ pattern: 'none*' }, []],
    [{ depth: '1' }, ['tree/a.json', 'tree/b.py']],
    [{ type: 'any', depth: '1' }, ['tree/a.json', 'tree/b.py', 'tree/sub']],
  ])('%j', { tags: ['1-42'] }, async (fields, paths) => {
    expect((await list({ path: 'tree', ...(fields as Record<string, string>) })).files.map(({ path }) => path)).toEqual(paths)
  })

  test('a hostile pattern holds up no other request', { tags: ['1-42'] }, async () => {
    await mkdir(host('long'))
    await Promise.all(Array.from({ length: 200 }, (_, index) => writeFile(host(`long/${'a'.repeat(240)}${index}`), '')))
    const [hostile, beside] = await Promise.all([
      list({ path: 'long', pattern: `${'*a'.repeat(100)}*b` }),
      dp.fetch('/files/stat?path=tree/a.json'),
      dp.fetch(`/files${query({ pattern: '*'.repeat(1025) })}`).then(async (answer) => {
        expect(await refused(answer)).toEqual([400, 'INVALID_REQUEST'])
      }),
    ])
    expect([hostile.files, beside.status]).toEqual([[], 200])
    expect(await refused(await dp.fetch(`/files${query({ path: 'long', pattern: `${'+(a|aa)'.repeat(140)}b` })}`))).toEqual([
      ...[400, 'INVALID_REQUEST'],
    ])
  })

  test('pages make the whole', async () => {
    const paths: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const page = await list({ path: 'tree', limit: '2', ...(cursor === '' ? {} : { cursor }) })
      expect(page.truncated).toBe(page.next_cursor !== null)
      paths.push(...page.files.map(({ path }) => path))
      cursor = page.next_cursor
    }
    expect(paths).toHaveLength(5)
    expect((await dp.fetch('/files?limit=10001')).status).toBe(400)
  })

  test('mkdir, upload, list, stat, move, delete; stat after it is 404', async () => {
    expect([(await dp.post('/files/mkdir', { path: 'seq/x' })).status, (await dp.post('/files/mkdir', { path: 'seq/x' })).status]).toEqual([
      200, 200,
    ])
    expect(await refused(await dp.post('/files/mkdir', { path: 'seq/no/parent', parents: false }))).toEqual([404, 'FILE_NOT_FOUND'])
    await dp.upload('seq/x/f', 'abc')
    expect((await list({ path: 'seq' })).files.map(({ path }) => path)).toEqual(['seq/x/f'])
    expect(await (await dp.fetch('/files/stat?path=seq/x/f')).json()).toMatchObject({
      path: 'seq/x/f',
      type: 'file',
      size: 3,
      mode: '0644',
    })
    expect(await (await dp.fetch('/files/stat?path=seq/x')).json()).toMatchObject({ type: 'directory' })
    await dp.upload('seq/there', 'old')
    expect(await refused(await dp.post('/files/move', { from: 'seq/x/f', to: 'seq/there' }))).toEqual([409, 'FILE_EXISTS'])
    expect((await dp.post('/files/move', { from: 'seq/x/f', to: 'seq/there', overwrite: true })).status).toBe(200)
    expect(await readFile(host('seq/there'), 'utf8')).toBe('abc')
    expect(await refused(await dp.fetch('/files?path=seq', { method: 'DELETE' }))).toEqual([400, 'DIRECTORY_NOT_EMPTY'])
    expect((await dp.fetch('/files?path=seq/x', { method: 'DELETE' })).status).toBe(204)
    expect((await dp.fetch('/files?path=seq&recursive=true', { method: 'DELETE' })).status).toBe(204)
    expect(await refused(await dp.fetch('/files/stat?path=seq/there'))).toEqual([404, 'FILE_NOT_FOUND'])
    expect(await refused(await dp.fetch('/files?path=seq', { method: 'DELETE' }))).toEqual([404, 'FILE_NOT_FOUND'])
  })

  test.each(['', '.', '/workspace', '/app/', 'a/..'])('the root %j is never deleted', { tags: ['1-52'] }, async (path) => {
    expect(await refused(await dp.fetch(`/files${query({ path, recursive: 'true' })}`, { method: 'DELETE' }))).toEqual([
      400,
      'INVALID_PATH',
    ])
  })

  test('stat of a link, followed or not', async () => {
    await symlink('tree/a.json', host('stat-link'))
    expect(await (await dp.fetch('/files/stat?path=stat-link')).json()).toMatchObject({ type: 'symlink' })
    expect(await (await dp.fetch('/files/stat?path=stat-link&follow=true')).json()).toMatchObject({ type: 'file', size: 6 })
  })

  test('[PERMISSION_DENIED] what the user of the sandbox may not read', async () => {
    if (process.getuid?.() === 0) {
      expect(await refused(await dp.fetch('/files/stat?path=tree/a.json/x'))).toEqual([400, 'NOT_A_DIRECTORY'])
      return
    }
    await dp.upload('locked', 'x')
    await chmod(host('locked'), 0)
    expect(await refused(await dp.download('locked'))).toEqual([403, 'PERMISSION_DENIED'])
  })
})

describe('capabilities of the file routes', { tags: ['4-105'] }, () => {
  test.each([
    ['GET', '/files/download?path=ranged', 'fs_read'],
    ['GET', '/files', 'fs_read'],
    ['GET', '/files/stat?path=ranged', 'fs_read'],
    ['POST', '/files/upload?path=x', 'fs_write'],
    ['DELETE', '/files?path=x', 'fs_write'],
    ['POST', '/files/mkdir', 'fs_write'],
    ['POST', '/files/move', 'fs_write'],
    ['POST', '/exec', 'exec'],
    ['GET', '/execs', 'exec'],
  ] as const)('%s %s needs %s', async (method, path, capability) => {
    const others = (['exec', 'shell', 'fs_read', 'fs_write'] as const).filter((one) => one !== capability)
    expect(await refused(await dp.fetch(path, { method, token: await dp.sign({ caps: others }) }))).toEqual([403, 'CAPABILITY_DENIED'])
    expect((await dp.fetch(path, { method, token: await dp.sign({ caps: [capability] }) })).status).not.toBe(403)
  })
})
