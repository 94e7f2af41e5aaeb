import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { extract, pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from './support/dataplane.ts'
import { until } from './support/processes.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ profile: { max_upload_bytes: 64 * 1024 * 1024 } })
})
afterAll(() => dp[Symbol.asyncDispose]())

const host = (path: string): string => join(dp.sandbox.workspacePath, path)
const query = (fields: Record<string, string>): string => `?${new URLSearchParams(fields)}`
const upload = (
  path: string,
  body: BodyInit,
  fields: Record<string, string> = {},
  headers: Record<string, string> = {},
): Promise<Response> => dp.fetch(`/files/upload${query({ path, ...fields })}`, { method: 'POST', body, headers })
const download = (path: string, headers: Record<string, string> = {}, fields: Record<string, string> = {}): Promise<Response> =>
  dp.fetch(`/files/download${query({ path, ...fields })}`, { headers })
const codeOf = async (response: Response): Promise<[number, string]> => [
  response.status,
  ((await response.json()) as { error: { code: string } }).error.code,
]
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

describe('[4-103] upload and [4-104] download', () => {
  test('10 MiB arrive as they left; the answer says what it made', async () => {
    const bytes = randomBytes(10 * 1024 * 1024)
    const made = await upload('deep/er/ten.bin', bytes, { mode: '0640' })
    expect([made.status, await made.json()]).toEqual([200, { path: 'deep/er/ten.bin', size: bytes.length, created: true }])
    expect(sha256(await readFile(host('deep/er/ten.bin')))).toBe(sha256(bytes))
    expect((await stat(host('deep/er/ten.bin'))).mode & 0o777).toBe(0o640)
    const got = await download('/workspace/deep//er/./ten.bin')
    expect(sha256(new Uint8Array(await got.arrayBuffer()))).toBe(sha256(bytes))
    expect([got.headers.get('content-length'), got.headers.get('content-type')]).toEqual([String(bytes.length), 'application/octet-stream'])
    expect(await (await upload('deep/er/ten.bin', 'less')).json()).toMatchObject({ created: false, size: 4 })
  })

  test('nothing is a file too', async () => {
    expect(await (await upload('empty', '')).json()).toMatchObject({ size: 0, created: true })
    expect(await (await download('empty')).text()).toBe('')
  })

  test('multipart, field file', async () => {
    const form = new FormData()
    form.append('note', 'ignored')
    form.append('file', new Blob([randomBytes(300_000)]), 'name.bin')
    expect(await (await upload('form.bin', form)).json()).toMatchObject({ path: 'form.bin', size: 300_000 })
    const without = new FormData()
    without.append('other', 'x')
    expect(await codeOf(await upload('form2.bin', without))).toEqual([400, 'INVALID_REQUEST'])
    await expect(stat(host('form2.bin'))).rejects.toThrow('ENOENT')
  })

  test.each(['spaces in it', 'Hello 世界 😀', 'new\nline', 'back\\slash', '-dash', '%41+b&c=d'])('the name %j', async (name) => {
    expect((await upload(name, name)).status).toBe(200)
    expect(await readFile(host(name), 'utf8')).toBe(name)
    expect(await (await download(name)).text()).toBe(name)
  })

  test('[1-49] overwrite=false and If-None-Match: * keep what is there, also if it is empty', async () => {
    await upload('kept', '')
    expect(await codeOf(await upload('kept', 'new', { overwrite: 'false' }))).toEqual([409, 'FILE_EXISTS'])
    expect(await codeOf(await upload('kept', 'new', {}, { 'If-None-Match': '*' }))).toEqual([409, 'FILE_EXISTS'])
    expect(await readFile(host('kept'), 'utf8')).toBe('')
  })

  test('If-Match: the version that the client knows, or 412', async () => {
    await upload('versioned', 'one')
    const etag = (await download('versioned')).headers.get('etag') as string
    expect((await upload('versioned', 'two', {}, { 'If-Match': etag })).status).toBe(200)
    expect(await codeOf(await upload('versioned', 'three', {}, { 'If-Match': etag }))).toEqual([412, 'PRECONDITION_FAILED'])
    expect(await codeOf(await upload('absent', 'x', {}, { 'If-Match': '*' }))).toEqual([412, 'PRECONDITION_FAILED'])
    expect(await readFile(host('versioned'), 'utf8')).toBe('two')
  })

  test('[C-61] an upload that breaks at half leaves nothing, and the old file whole', async () => {
    await upload('atomic', 'old')
    const sent = request(`${dp.base}/files/upload?path=atomic`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${dp.token}`, 'Content-Length': 10_000_000 },
    })
    sent.on('error', () => {})
    sent.write(Buffer.alloc(5_000_000))
    await until('half of it is there', async () =>
      (await readdir(dp.sandbox.workspacePath)).some((name) => name.startsWith('.boxoffice-upload-')),
    )
    const listed = (await (await dp.fetch('/files?type=any&limit=10000')).json()) as { files: { path: string }[] }
    expect(listed.files.filter(({ path }) => path.includes('.boxoffice'))).toEqual([])
    sent.destroy()
    await until(
      'it is cleaned up',
      async () => !(await readdir(dp.sandbox.workspacePath)).some((name) => name.startsWith('.boxoffice-upload-')),
    )
    expect(await readFile(host('atomic'), 'utf8')).toBe('old')
  })

  test('[4-108] too large: refused at once when it is announced, in constant memory when it is not', async () => {
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
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1024 * 1024)
    await expect(stat(host('big'))).rejects.toThrow('ENOENT')
  }, 20_000)
})

describe('[4-104] parts and versions', () => {
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
    const response = await download('ranged', { Range: range })
    expect([response.status, await response.text(), response.headers.get('content-range')]).toEqual([status, text, contentRange])
  })

  test('a range beyond the end is 416 with the size', async () => {
    const response = await download('ranged', { Range: 'bytes=10-' })
    expect(response.headers.get('content-range')).toBe('bytes */10')
    expect(await codeOf(response)).toEqual([416, 'RANGE_NOT_SATISFIABLE'])
  })

  test('If-Range, If-None-Match, HEAD', async () => {
    const etag = (await download('ranged')).headers.get('etag') as string
    expect((await download('ranged', { Range: 'bytes=0-1', 'If-Range': etag })).status).toBe(206)
    expect((await download('ranged', { Range: 'bytes=0-1', 'If-Range': '"other"' })).status).toBe(200)
    expect((await download('ranged', { 'If-None-Match': etag })).status).toBe(304)
    expect((await download('ranged', { 'If-None-Match': '"other"' })).status).toBe(200)
    const head = await dp.fetch('/files/download?path=ranged', { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), head.headers.get('etag'), await head.text()]).toEqual([200, '10', etag, ''])
    expect(Date.parse(head.headers.get('last-modified') as string)).toBeGreaterThan(0)
    expect((await dp.fetch('/files/download?path=none', { method: 'HEAD' })).status).toBe(404)
  })
})

describe('[4-106] paths', () => {
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
    expect(await codeOf(await download(path))).toEqual([400, 'INVALID_PATH'])
    expect(await codeOf(await upload(path, 'x'))).toEqual([400, 'INVALID_PATH'])
    expect(await codeOf(await dp.fetch(`/files/stat${query({ path })}`))).toEqual([400, 'INVALID_PATH'])
    expect(await codeOf(await dp.post('/files/move', { from: path, to: 'y' }))).toEqual([400, 'INVALID_PATH'])
  })

  test.each(['/workspace/seen', '/app/seen', './seen', 'a/../seen', '//workspace//seen'])('%s is the same file', async (path) => {
    await writeFile(host('seen'), 'x')
    expect(await (await download(path)).text()).toBe('x')
  })

  test('a query that is not UTF-8 is refused', async () => {
    expect((await dp.fetch('/files/download?path=%ff')).status).toBe(400)
  })

  test('[1-55] links inside are followed; one that leads outside is refused for read and write, and deleted as a link', async () => {
    await writeFile(host('target'), 'inside')
    await symlink('target', host('link-in'))
    await symlink('/etc/passwd', host('link-out'))
    await symlink('/etc', host('dir-out'))
    expect(await (await download('link-in')).text()).toBe('inside')
    for (const path of ['link-out', 'dir-out/passwd']) {
      expect(await codeOf(await download(path))).toEqual([400, 'INVALID_PATH'])
    }
    expect(await codeOf(await upload('dir-out/evil', 'x'))).toEqual([400, 'INVALID_PATH'])
    expect((await dp.fetch('/files?path=link-out', { method: 'DELETE' })).status).toBe(204)
    expect(await readFile('/etc/passwd', 'utf8')).toContain('root')
  })

  test('[C-61] fifos, devices and sockets are NOT_A_FILE within a second', async () => {
    spawnSync('mkfifo', [host('fifo')])
    const started = performance.now()
    expect(await codeOf(await download('fifo'))).toEqual([400, 'NOT_A_FILE'])
    expect(performance.now() - started).toBeLessThan(1000)
  })

  test('[1-46] what is missing, a directory, or not a directory; messages hold the path as given', async () => {
    await mkdir(host('folder'), { recursive: true })
    await writeFile(host('plain'), 'x')
    expect(await codeOf(await download('no/such'))).toEqual([404, 'FILE_NOT_FOUND'])
    expect(await codeOf(await download('folder'))).toEqual([400, 'IS_DIRECTORY'])
    expect(await codeOf(await upload('folder', 'x'))).toEqual([400, 'IS_DIRECTORY'])
    expect(await codeOf(await upload('plain/below', 'x'))).toEqual([400, 'NOT_A_DIRECTORY'])
    const { detail } = (await (await download('/workspace/no/such')).json()) as { detail: string }
    expect(detail).toContain('"/workspace/no/such"')
    expect(detail).not.toContain(dp.sandbox.directory)
  })

  test('root=sandbox is refused without isolation', async () => {
    expect(await codeOf(await download('/tmp/x', {}, { root: 'sandbox' }))).toEqual([501, 'UNSUPPORTED'])
  })
})

describe('[4-107] tree', () => {
  const list = async (
    fields: Record<string, string>,
  ): Promise<{
    files: { path: string; type: string; mode: string; size: number; mtime: string }[]
    truncated: boolean
    next_cursor: string | null
  }> => (await dp.fetch(`/files${query(fields)}`)).json() as never

  beforeAll(async () => {
    for (const path of ['a.json', 'b.py', 'sub/c.json', 'sub/deep/d.json', 'sub/deep/e.py']) await upload(`tree/${path}`, path)
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
  ])('[1-42] %j', async (fields, paths) => {
    expect((await list({ path: 'tree', ...(fields as Record<string, string>) })).files.map(({ path }) => path)).toEqual(paths)
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
    expect(await codeOf(await dp.post('/files/mkdir', { path: 'seq/no/parent', parents: false }))).toEqual([404, 'FILE_NOT_FOUND'])
    await upload('seq/x/f', 'abc')
    expect((await list({ path: 'seq' })).files.map(({ path }) => path)).toEqual(['seq/x/f'])
    expect(await (await dp.fetch('/files/stat?path=seq/x/f')).json()).toMatchObject({
      path: 'seq/x/f',
      type: 'file',
      size: 3,
      mode: '0644',
    })
    expect(await (await dp.fetch('/files/stat?path=seq/x')).json()).toMatchObject({ type: 'directory' })
    await upload('seq/there', 'old')
    expect(await codeOf(await dp.post('/files/move', { from: 'seq/x/f', to: 'seq/there' }))).toEqual([409, 'FILE_EXISTS'])
    expect((await dp.post('/files/move', { from: 'seq/x/f', to: 'seq/there', overwrite: true })).status).toBe(200)
    expect(await readFile(host('seq/there'), 'utf8')).toBe('abc')
    expect(await codeOf(await dp.fetch('/files?path=seq', { method: 'DELETE' }))).toEqual([400, 'DIRECTORY_NOT_EMPTY'])
    expect((await dp.fetch('/files?path=seq/x', { method: 'DELETE' })).status).toBe(204)
    expect((await dp.fetch('/files?path=seq&recursive=true', { method: 'DELETE' })).status).toBe(204)
    expect(await codeOf(await dp.fetch('/files/stat?path=seq/there'))).toEqual([404, 'FILE_NOT_FOUND'])
    expect(await codeOf(await dp.fetch('/files?path=seq', { method: 'DELETE' }))).toEqual([404, 'FILE_NOT_FOUND'])
  })

  test.each(['', '.', '/workspace', '/app/', 'a/..'])('[1-52] the root %j is never deleted', async (path) => {
    expect(await codeOf(await dp.fetch(`/files${query({ path, recursive: 'true' })}`, { method: 'DELETE' }))).toEqual([400, 'INVALID_PATH'])
  })

  test('stat of a link, followed or not', async () => {
    await symlink('tree/a.json', host('stat-link'))
    expect(await (await dp.fetch('/files/stat?path=stat-link')).json()).toMatchObject({ type: 'symlink' })
    expect(await (await dp.fetch('/files/stat?path=stat-link&follow=true')).json()).toMatchObject({ type: 'file', size: 6 })
  })

  test('[PERMISSION_DENIED] what the user of the sandbox may not read', async () => {
    if (process.getuid?.() === 0) {
      expect(await codeOf(await dp.fetch('/files/stat?path=tree/a.json/x'))).toEqual([400, 'NOT_A_DIRECTORY'])
      return
    }
    await upload('locked', 'x')
    await chmod(host('locked'), 0)
    expect(await codeOf(await download('locked'))).toEqual([403, 'PERMISSION_DENIED'])
  })
})

type Entry = { name: string; type?: 'file' | 'directory' | 'symlink' | 'link' | 'fifo'; linkname?: string; mode?: number; text?: string }

const tar = async (entries: Entry[]): Promise<Buffer> => {
  const archive = pack()
  for (const { text, ...header } of entries) archive.entry(header, text ?? '')
  archive.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of archive) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

describe('archives', () => {
  test('up: files, directories, links, modes', async () => {
    const bytes = await tar([
      { name: 'd/', type: 'directory', mode: 0o755 },
      { name: 'd/run.sh', text: 'echo ran', mode: 0o755 },
      { name: './empty', text: '' },
      { name: 'l', type: 'symlink', linkname: 'd/run.sh' },
      { name: 'new/parents/x', text: 'x' },
    ])
    const response = await upload('unpacked', new Uint8Array(bytes), { archive: 'tar' })
    expect([response.status, await response.json()]).toMatchObject([200, { path: 'unpacked' }])
    expect(await dp.exec({ command: './d/run.sh; readlink l; cat new/parents/x; wc -c < empty', cwd: 'unpacked' })).toMatchObject({
      stdout: 'ran\nd/run.sh\nx0\n',
    })
  })

  test.each<[string, Entry[]]>([
    ['an absolute entry', [{ name: '/abs', text: 'x' }]],
    ['one with ..', [{ name: 'a/../../evil', text: 'x' }]],
    [
      'one through a link of its own',
      [
        { name: 'l', type: 'symlink', linkname: 'real' },
        { name: 'l/evil', text: 'x' },
      ],
    ],
    ['a link that leads outside', [{ name: 'l', type: 'symlink', linkname: '../../../etc' }]],
    ['an absolute link', [{ name: 'l', type: 'symlink', linkname: '/etc' }]],
    ['a hard link', [{ name: 'h', type: 'link', linkname: 'x' }]],
    ['a fifo', [{ name: 'f', type: 'fifo' }]],
  ])('%s is refused', async (_name, entries) => {
    expect(await codeOf(await upload('refused', new Uint8Array(await tar(entries)), { archive: 'tar' }))).toEqual([400, 'INVALID_PATH'])
    expect((await readdir(dp.sandbox.workspacePath)).includes('evil')).toBe(false)
  })

  test('what is no archive', async () => {
    expect((await upload('garbage', Buffer.alloc(5000, 'x'), { archive: 'tar' })).status).toBe(400)
  })

  test('down: what went up, with special files left out', async () => {
    await dp.exec({
      command: 'mkdir -p out/sub && echo 1 > out/one && head -c 200000 /dev/urandom > out/sub/big && mkfifo out/fifo && chmod 700 out/one',
    })
    const response = await download('out', {}, { archive: 'tar' })
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-tar'])
    const found: Record<string, string> = {}
    const unpack = extract()
    Readable.from(Buffer.from(await response.arrayBuffer())).pipe(unpack as never)
    for await (const entry of unpack) {
      const chunks: Buffer[] = []
      for await (const chunk of entry) chunks.push(chunk as Buffer)
      const { name, type, linkname, mode } = entry.header
      found[name.replace(/\/$/, '')] =
        type === 'symlink' ? `-> ${linkname}` : type === 'file' ? `${mode.toString(8)} ${sha256(Buffer.concat(chunks))}` : type
    }
    expect(found).toEqual({
      one: `700 ${sha256(Buffer.from('1\n'))}`,
      sub: 'directory',
      'sub/big': `644 ${sha256(await readFile(host('out/sub/big')))}`,
    })
    expect(await codeOf(await download('out/one', {}, { archive: 'tar' }))).toEqual([400, 'NOT_A_DIRECTORY'])
    expect((await download('out', {}, { archive: 'zip' })).status).toBe(400)
  })
})

test('[4-104] a directory goes down as tar with its links as links', async () => {
  await dp.exec({ command: 'mkdir -p linked && ln -s one linked/link' })
  const bytes = Buffer.from(await (await download('linked', {}, { archive: 'tar' })).arrayBuffer())
  expect(bytes.toString('latin1')).toContain('link')
})

describe('[4-105] capabilities of the file routes', () => {
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
    expect(await codeOf(await dp.fetch(path, { method, token: await dp.sign({ caps: others }) }))).toEqual([403, 'CAPABILITY_DENIED'])
    expect((await dp.fetch(path, { method, token: await dp.sign({ caps: [capability] }) })).status).not.toBe(403)
  })
})
