import { extract, type Header } from 'tar-stream'
import { expect, test } from 'vitest'
import { type TarEntry, tarHeader } from '../../src/files/tar-header.ts'

/** What another program makes of it. */
const decoded = async (entry: Partial<TarEntry>): Promise<Header> => {
  const unpack = extract()
  const { promise, resolve, reject } = Promise.withResolvers<Header>()
  unpack.on('entry', resolve)
  unpack.on('error', reject)
  unpack.write(tarHeader({ name: Buffer.from('name'), type: 'file', mode: 0o640, mtimeMs: 1_700_000_000_999, ...entry }))
  return promise
}

test('[4-104] has what is known of a file', async () => {
  expect(await decoded({ size: 5 })).toMatchObject({ name: 'name', type: 'file', mode: 0o640, size: 5, mtime: new Date(1_700_000_000_000) })
  expect(await decoded({ type: 'directory' })).toMatchObject({ name: 'name/', type: 'directory' })
  expect(await decoded({ type: 'symlink', target: Buffer.from('there') })).toMatchObject({ type: 'symlink', linkname: 'there' })
})

test.each([99, 100, 101, 511, 512, 513, 4095])('[4-104] a name and a target of %i bytes are whole', async (length) => {
  const [name, target] = ['n'.repeat(length), 't'.repeat(length)]
  expect(await decoded({ name: Buffer.from(name) })).toMatchObject({ name })
  expect(await decoded({ type: 'symlink', target: Buffer.from(target) })).toMatchObject({ name: 'name', linkname: target })
  expect(await decoded({ type: 'symlink', name: Buffer.from(name), target: Buffer.from(target) })).toMatchObject({ name, linkname: target })
})

test.each([8 ** 11 - 1, 8 ** 11, 9 * 1024 ** 3])('[4-104] a size of %i is whole', async (size) => {
  expect(await decoded({ size })).toMatchObject({ size })
})

test('a time before 1970 is its beginning', async () => {
  expect(await decoded({ mtimeMs: -1 })).toMatchObject({ mtime: new Date(0) })
})
