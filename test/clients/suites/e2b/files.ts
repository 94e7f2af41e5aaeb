import { gzipSync } from 'node:zlib'
import { FileNotFoundError, NotFoundError, Sandbox } from 'e2b'
import { expect, test } from 'vitest'
import { type E2bStand, headersOf } from './stand.ts'

/** Files and watches of E2B's SDK, on every engine. */
export const filesCases = (stand: E2bStand): void => {
  test('a file is written, read, listed, moved and removed', async () => {
    const { files } = stand.shared
    await files.write('notes/a b.txt', 'grüße\n')
    expect(await files.read('notes/a b.txt')).toBe('grüße\n')
    expect(await files.exists('notes/none')).toBe(false)
    await files.write([
      { path: 'notes/one.bin', data: new Uint8Array([0, 1, 255]).buffer },
      { path: '/tmp/two.txt', data: 'two' },
    ])
    expect([...(await files.read('notes/one.bin', { format: 'bytes' }))]).toEqual([0, 1, 255])
    expect(await files.read('/tmp/two.txt')).toBe('two')
    expect((await files.list('notes')).map(({ name, type, path }) => [name, type, path])).toEqual([
      ['a b.txt', 'file', '/workspace/notes/a b.txt'],
      ['one.bin', 'file', '/workspace/notes/one.bin'],
    ])
    expect(await files.makeDir('notes/deep/er')).toBe(true)
    expect(await files.makeDir('notes/deep/er')).toBe(false)
    const moved = await files.rename('notes/one.bin', 'notes/deep/one.bin')
    expect(moved).toMatchObject({ path: '/workspace/notes/deep/one.bin', size: 3, type: 'file' })
    expect(await files.getInfo('notes/deep')).toMatchObject({ name: 'deep', type: 'dir' })
    await files.remove('notes')
    expect(await files.exists('notes')).toBe(false)
    await expect(files.read('notes/none')).rejects.toBeInstanceOf(FileNotFoundError)
    await expect(files.list('notes')).rejects.toBeInstanceOf(NotFoundError)
  })
}

/** Files and watches of E2B's SDK. */
export const moreFilesCases = (stand: E2bStand): void => {
  test('files are streams, compressed on request, and have ranges', async () => {
    const bytes = new Uint8Array(3_000_000).map((_, i) => i % 251)
    const body = () => new Blob([bytes]).stream()
    await stand.shared.files.write('big.bin', body())
    await stand.shared.files.write('gzip.bin', body(), { gzip: true })
    for (const name of ['big.bin', 'gzip.bin'])
      expect(Buffer.from(await stand.shared.files.read(name, { format: 'bytes' })).equals(Buffer.from(bytes))).toBe(true)
    const chunks: Uint8Array[] = []
    for await (const chunk of await stand.shared.files.read('big.bin', { format: 'stream' })) chunks.push(chunk)
    expect(Buffer.concat(chunks).equals(Buffer.from(bytes))).toBe(true)
    await stand.shared.files.makeDir('taken')
    await expect(stand.shared.files.write('taken', body())).rejects.toThrow(/directory/)
    await expect(stand.shared.files.write('taken', body(), { gzip: true })).rejects.toThrow(/directory/)
    const range = await stand.envd('/files?path=big.bin', { headers: { range: 'bytes=250-252' } })
    expect([range.status, [...new Uint8Array(await range.arrayBuffer())]]).toEqual([206, [250, 0, 1]])
  })

  test('an upload that is not valid gzip is refused and writes nothing', async () => {
    const whole = gzipSync(Buffer.alloc(100_000, 'text'))
    const form = (bytes: Uint8Array): Buffer<ArrayBuffer> =>
      Buffer.concat([Buffer.from('--b\r\ncontent-disposition: form-data; name="file"; filename="broken"\r\n\r\n'), bytes])
    const octets = { 'content-type': 'application/octet-stream' }
    const multipart = { 'content-type': 'multipart/form-data; boundary=b' }
    for (const [type, body] of [
      [octets, whole.subarray(0, -20)],
      [octets, Buffer.from('no gzip at all')],
      [octets, Buffer.concat([whole.subarray(0, 50), Buffer.from('not gzip'), whole.subarray(50)])],
      [multipart, gzipSync(form(whole)).subarray(0, -20)],
      [multipart, form(whole)],
    ] as const) {
      const answer = await stand.envd('/files?path=broken', { method: 'POST', headers: { ...type, 'content-encoding': 'gzip' }, body })
      expect(await answer.json()).toMatchObject({ code: 'invalid_argument' })
      expect(answer.status).toBe(400)
    }
    expect(await stand.shared.files.exists('broken')).toBe(false)
  })

  test('changes of a directory are told', async () => {
    await stand.shared.files.makeDir('seen')
    const told: string[] = []
    const written = Promise.withResolvers<void>()
    const watch = await stand.shared.files.watchDir('seen', ({ type, name }) => {
      told.push(`${type} ${name}`)
      if (type === 'write') written.resolve()
    })
    await stand.shared.commands.run('echo text > seen/file.txt')
    await written.promise
    expect(told).toContain('create file.txt')
    await watch.stop()
    await expect(stand.shared.files.watchDir('none', () => {})).rejects.toBeInstanceOf(FileNotFoundError)
  })

  test('a watcher that is polled tells changes to its own sandbox, until it is removed', async () => {
    await stand.shared.files.makeDir('polled')
    const call = async (name: string, message: object, headers = {}) => {
      const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(message) }
      const answer = await stand.envd(`/filesystem.Filesystem/${name}`, init)
      return { status: answer.status, ...((await answer.json()) as { watcherId?: string; events?: { name: string; type: string }[] }) }
    }
    const { watcherId = '' } = await call('CreateWatcher', { path: 'polled' })
    await stand.shared.commands.run('echo text > polled/file.txt')
    const told: unknown[] = []
    await expect
      .poll(async () => {
        told.push(...((await call('GetWatcherEvents', { watcherId })).events ?? []))
        return told
      })
      .toContainEqual({ name: 'file.txt', type: 'EVENT_TYPE_WRITE' })
    const other = await Sandbox.create(stand.at())
    const theirs = headersOf(other)
    for (const name of ['GetWatcherEvents', 'RemoveWatcher'])
      expect(await call(name, { watcherId }, theirs)).toMatchObject({ status: 404, code: 'not_found' })
    await other.kill()
    const more = await Promise.all(Array.from({ length: 20 }, () => call('CreateWatcher', { path: 'polled' })))
    // 8 at most; a watch of before may not have ended yet.
    const refused = more.filter(({ status }) => status === 429).length
    expect(refused).toBeGreaterThanOrEqual(13)
    expect(more.filter(({ status }) => status === 200)).toHaveLength(20 - refused)
    for (const made of [{ watcherId }, ...more])
      if (made.watcherId !== undefined) expect((await call('RemoveWatcher', { watcherId: made.watcherId })).status).toBe(200)
    expect((await call('GetWatcherEvents', { watcherId })).status).toBe(404)
  })
}
