import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { extract, pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDataplane } from './support/dataplane.ts'
import { refused } from './support/refused.ts'

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start({ profile: { max_upload_bytes: 64 * 1024 * 1024 } })
})
afterAll(() => dp[Symbol.asyncDispose]())

const host = (path: string): string => join(dp.sandbox.workspacePath, path)
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

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
    ['a link that leads outside', [{ name: 'l', type: 'symlink', linkname: '../../../etc' }]],
    ['an absolute link', [{ name: 'l', type: 'symlink', linkname: '/etc' }]],
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

test('[4-104] a directory goes down as tar with its links as links', async () => {
  await dp.exec({ command: 'mkdir -p linked && ln -s one linked/link' })
  const bytes = Buffer.from(await (await dp.download('linked', {}, { archive: 'tar' })).arrayBuffer())
  expect(bytes.toString('latin1')).toContain('link')
})
