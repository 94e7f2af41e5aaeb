import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pack } from 'tar-stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { unpackInto } from '../src/transfer/unpack.ts'

type Entry = { name: string; type?: 'file' | 'directory' | 'symlink' | 'link' | 'fifo'; linkname?: string; content?: string; mode?: number }

/** An archive as a hostile sandbox may send it. */
const archiveOf = (entries: Entry[]): Readable => {
  const archive = pack()
  for (const { content = '', ...header } of entries) archive.entry(header, content)
  archive.finalize()
  return Readable.from(archive as AsyncIterable<Uint8Array>)
}

describe('an archive from a sandbox', () => {
  let place: string
  let root: string
  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), 'bxo-unpack-'))
    root = join(place, 'root')
  })
  afterEach(() => rmSync(place, { recursive: true, force: true }))
  const unpack = (entries: Entry[]) => unpackInto(root, archiveOf(entries), new AbortController().signal)

  test('becomes files, directories and links, with their permissions but no more', async () => {
    await unpack([
      { name: 'sub', type: 'directory', mode: 0o750 },
      { name: 'sub/run.sh', content: 'echo hi', mode: 0o4755 },
      { name: 'link', type: 'symlink', linkname: 'sub/run.sh' },
      { name: 'deep/er/file', content: 'x' },
    ])
    expect(readFileSync(join(root, 'link'), 'utf8')).toBe('echo hi')
    expect(statSync(join(root, 'sub/run.sh')).mode & 0o7777).toBe(0o755)
    expect(statSync(join(root, 'sub')).mode & 0o777).toBe(0o750)
    expect(readFileSync(join(root, 'deep/er/file'), 'utf8')).toBe('x')
  })

  test.for(['../evil', 'a/../../evil', '/../evil'])('with the name %s is refused', async (name) => {
    await expect(unpack([{ name, content: 'x' }])).rejects.toThrow(/would leave/)
    expect(existsSync(join(place, 'evil'))).toBe(false)
  })

  test('writes absolute names below its root', async () => {
    await unpack([{ name: '/etc/inside', content: 'x' }])
    expect(existsSync(join(root, 'etc/inside'))).toBe(true)
  })

  test('cannot write through a link of its own', async () => {
    mkdirSync(join(place, 'outside'))
    const entries: Entry[] = [
      { name: 'door', type: 'symlink', linkname: join(place, 'outside') },
      { name: 'door/evil', content: 'x' },
    ]
    await expect(unpack(entries)).rejects.toThrow(/directory here/)
    await expect(unpack([...entries].reverse())).rejects.toThrow()
    expect(existsSync(join(place, 'outside/evil'))).toBe(false)
  })

  test('cannot write through a link that was here', async () => {
    mkdirSync(root)
    mkdirSync(join(place, 'outside'))
    writeFileSync(join(place, 'outside/file'), 'mine')
    symlinkSync(join(place, 'outside'), join(root, 'door'))
    symlinkSync(join(place, 'outside/file'), join(root, 'file'))
    await expect(unpack([{ name: 'door/evil', content: 'x' }])).rejects.toThrow(/is a link/)
    await unpack([{ name: 'file', content: 'theirs' }])
    expect(readFileSync(join(place, 'outside/file'), 'utf8')).toBe('mine')
    expect(readFileSync(join(root, 'file'), 'utf8')).toBe('theirs')
  })

  test('a link under its own name stays a link, hard links and fifos are left out', async () => {
    await unpack([
      { name: 'a', type: 'symlink', linkname: '/etc/passwd' },
      { name: 'h', type: 'link', linkname: '/etc/passwd' },
      { name: 'f', type: 'fifo' },
    ])
    expect(readlinkSync(join(root, 'a'))).toBe('/etc/passwd')
    expect(existsSync(join(root, 'h'))).toBe(false)
    expect(existsSync(join(root, 'f'))).toBe(false)
  })

  test('keeps names that are not UTF-8, and those in pax headers', async () => {
    const raw = (path: string): Buffer => Buffer.from(path, 'latin1')
    const source = join(place, 'source')
    mkdirSync(source)
    mkdirSync(raw(`${source}/\xff\xfe`))
    for (const name of ['caf\xe9', 'caf\xe8', '\xff\xfe/x']) writeFileSync(raw(`${source}/${name}`), name)
    symlinkSync(raw('caf\xe9'), raw(`${source}/\xe9`))
    const archive = execFileSync('tar', ['--create', '--format=gnu', '-C', source, '.'])
    await unpackInto(root, Readable.from([archive]), new AbortController().signal)
    for (const name of ['caf\xe9', 'caf\xe8', '\xff\xfe/x']) expect(readFileSync(raw(`${root}/${name}`), 'utf8')).toBe(name)
    expect(readlinkSync(raw(`${root}/\xe9`), 'buffer')).toEqual(raw('caf\xe9'))
    await unpack([
      { name: 'été', content: 'x' },
      { name: 'lien', type: 'symlink', linkname: 'été' },
    ])
    expect([readFileSync(join(root, 'été'), 'utf8'), readlinkSync(join(root, 'lien'))]).toEqual(['x', 'été'])
  })

  test('that breaks off is an error', async () => {
    const whole = await buffer(archiveOf([{ name: 'a', content: 'x'.repeat(10_000) }]))
    const half = whole.subarray(0, 3000)
    await expect(unpackInto(root, Readable.from([half]), new AbortController().signal)).rejects.toThrow()
  })
})
