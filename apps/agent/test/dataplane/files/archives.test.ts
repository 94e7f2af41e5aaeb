import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { extract, type Header, pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from '../../support/dataplane.ts'
import { refused } from '../../support/refused.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ profile: { max_upload_bytes: 64 * 1024 * 1024 } })
})
afterAll(() => dp[Symbol.asyncDispose]())

const host = (path: string): string => join(dp.sandbox.workspacePath, path)
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

type Entry = {
  name: string
  type?: 'file' | 'directory' | 'symlink' | 'link' | 'fifo'
  linkname?: string
  mode?: number
  text?: string
  pax?: Record<string, string>
}

const tar = async (entries: Entry[]): Promise<Buffer> => {
  const archive = pack()
  for (const { text, ...header } of entries) archive.entry(header as Header, text ?? '')
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
    const response = await dp.upload('unpacked', new Uint8Array(bytes), { archive: 'tar' })
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
    [
      'one through a link that leads outside',
      [
        { name: 'out', type: 'symlink', linkname: '/etc' },
        { name: 'out/evil', text: 'x' },
      ],
    ],
    ['a name that is not UTF-8 in a pax header', [{ name: 'latin', pax: { path: 'caf\ufffd' }, text: 'x' }]],
    ['a hard link', [{ name: 'h', type: 'link', linkname: 'x' }]],
    ['a fifo', [{ name: 'f', type: 'fifo' }]],
  ])('%s is refused', async (_name, entries) => {
    expect(await refused(await dp.upload('refused', new Uint8Array(await tar(entries)), { archive: 'tar' }))).toEqual([400, 'INVALID_PATH'])
    expect((await readdir(dp.sandbox.workspacePath)).includes('evil')).toBe(false)
  })

  test('what is no archive', async () => {
    expect((await dp.upload('garbage', Buffer.alloc(5000, 'x'), { archive: 'tar' })).status).toBe(400)
  })

  test('down: what went up, with special files left out', async () => {
    await dp.exec({
      command: 'mkdir -p out/sub && echo 1 > out/one && head -c 200000 /dev/urandom > out/sub/big && mkfifo out/fifo && chmod 700 out/one',
    })
    const response = await dp.download('out', {}, { archive: 'tar' })
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
    expect(await refused(await dp.download('out/one', {}, { archive: 'tar' }))).toEqual([400, 'NOT_A_DIRECTORY'])
    expect((await dp.download('out', {}, { archive: 'zip' })).status).toBe(400)
  })
})

describe('links in archives', { tags: ['4-103', 'C-61'] }, () => {
  /** What a Python virtual environment has. */
  const VENV =
    'mkdir -p venv/bin venv/lib/python3/site-packages && cd venv && ln -s lib lib64 && ln -s /usr/bin/python3 bin/python3 && ln -s python3 bin/python && echo "home = /usr/bin" > pyvenv.cfg && echo x > lib/python3/site-packages/six.py'
  const LOOK = 'find . -type l -printf "%p -> %l\\n" | sort; cat pyvenv.cfg lib64/python3/site-packages/six.py; readlink bin/python3'

  test('a virtual environment goes down and up again, also over itself', async () => {
    await dp.exec({ command: VENV })
    const bytes = new Uint8Array(await (await dp.download('venv', {}, { archive: 'tar' })).arrayBuffer())
    for (const target of ['copy', 'copy', 'venv'])
      expect([target, (await dp.upload(target, bytes, { archive: 'tar' })).status]).toEqual([target, 200])
    const { stdout } = await dp.exec({ command: LOOK, cwd: 'venv' })
    expect(stdout).toContain('./bin/python3 -> /usr/bin/python3\n')
    expect(await dp.exec({ command: LOOK, cwd: 'copy' })).toMatchObject({ stdout })
  })

  test('one that leads out is made as it is, and followed by no file call', async () => {
    const links = { absolute: '/etc', parent: '../../../..', dangling: '/nowhere/at/all' }
    const entries = Object.entries(links).map(([name, linkname]): Entry => ({ name, type: 'symlink', linkname }))
    expect((await dp.upload('out-links', new Uint8Array(await tar(entries)), { archive: 'tar' })).status).toBe(200)
    for (const [name, target] of Object.entries(links)) {
      expect(await readlink(host(`out-links/${name}`))).toBe(target)
      for (const answer of [
        await dp.download(`out-links/${name}/passwd`),
        await dp.upload(`out-links/${name}/evil`, 'x'),
        await dp.post('/files/mkdir', { path: `out-links/${name}/evil` }),
        await dp.post('/files/move', { from: 'out-links/absolute', to: `out-links/${name}/evil` }),
        await dp.fetch(`/files?path=out-links/${name}`),
        await dp.fetch(`/files/stat?follow=true&path=out-links/${name}`),
        await dp.fetch(`/files?path=out-links/${name}/passwd`, { method: 'DELETE' }),
      ])
        expect([name, ...(await refused(answer))]).toEqual([name, 400, 'INVALID_PATH'])
    }
  })

  test('a link takes the place of a file, and a file that of a link; a directory stays', async () => {
    await dp.exec({ command: 'mkdir -p places/directory && cd places && echo kept > target && echo old > file && ln -s target link' })
    const up = async (entries: Entry[]): Promise<Response> => dp.upload('places', new Uint8Array(await tar(entries)), { archive: 'tar' })
    expect(
      (
        await up([
          { name: 'file', type: 'symlink', linkname: 'target' },
          { name: 'link', text: 'new' },
        ])
      ).status,
    ).toBe(200)
    expect(await dp.exec({ command: 'readlink file; test -L link || cat link target', cwd: 'places' })).toMatchObject({
      stdout: 'target\nnewkept\n',
    })
    expect(await refused(await up([{ name: 'directory', type: 'symlink', linkname: 'x' }]))).toEqual([400, 'IS_DIRECTORY'])
    expect((await readdir(host('places'))).sort()).toEqual(['directory', 'file', 'link', 'target'])
  })
})

test('what is read ahead of its turn comes in order and whole: small files, links, and between them large ones', async () => {
  const sizes = [0, 1, 65_535, 65_536, 65_537, 300_000]
  await dp.exec({
    command: `mkdir many && cd many && for i in $(seq 10 49); do set -- ${sizes.join(' ')}; shift $((i % ${sizes.length})); head -c $1 /dev/urandom > f$i; ln -s f$i f$i-link; done`,
  })
  const unpack = extract()
  const response = await dp.download('many', {}, { archive: 'tar' })
  Readable.from(Buffer.from(await response.arrayBuffer())).pipe(unpack as never)
  const found: string[] = []
  for await (const entry of unpack) {
    const chunks: Buffer[] = []
    for await (const chunk of entry) chunks.push(chunk as Buffer)
    found.push(`${entry.header.name} ${entry.header.linkname ?? sha256(Buffer.concat(chunks))}`)
  }
  const expected = Array.from({ length: 40 }, (_, i) => `f${i + 10}`).map(async (name) => [
    `${name} ${sha256(await readFile(host(`many/${name}`)))}`,
    `${name}-link ${name}`,
  ])
  expect(found).toEqual((await Promise.all(expected)).flat())
})

test('a directory goes down as tar with its links as links', { tags: ['4-104'] }, async () => {
  await dp.exec({ command: 'mkdir -p linked && ln -s one linked/link' })
  const bytes = Buffer.from(await (await dp.download('linked', {}, { archive: 'tar' })).arrayBuffer())
  expect(bytes.toString('latin1')).toContain('link')
})
