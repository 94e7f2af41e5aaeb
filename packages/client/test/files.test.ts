import { describe, expect } from 'vitest'
import { ConnectionError } from '../src/index.ts'
import { envelope, type FakeServer, type Recorded } from './fixture/fake-server.ts'
import { pattern, test } from './fixture/server-test.ts'

const BASE = '/sandboxes/sb_1/v1'
const ENTRY = { path: 'a', type: 'file', size: 1, mtime: '2026-11-22T00:00:00Z', mode: '0644' }
const uploaded = { path: 'a b', size: 3, created: true }

describe('files', () => {
  test('[4-103] go up from text, bytes, a Blob and a stream', async ({ server, session }) => {
    server.intercept = ({ path }) => (path.startsWith(`${BASE}/files/upload`) ? { json: uploaded } : undefined)
    const bytes = pattern(200_000)
    async function* parts() {
      yield bytes.subarray(0, 70_000)
      yield bytes.subarray(70_000)
    }
    const contents = ['héllo', bytes, bytes.buffer, new Blob([bytes]), new Blob([bytes]).stream(), parts()] as const
    for (const content of contents) await session.files.upload('a b', content, { mode: '0755', overwrite: false })
    const bodies = server.requests.filter(({ path }) => path.includes('upload')).map(({ body }) => body)
    expect(bodies.shift()?.toString()).toBe('héllo')
    for (const body of bodies) expect(body.equals(bytes)).toBe(true)
    expect(server.requests.at(-1)?.path).toBe(`${BASE}/files/upload?path=a+b&mode=0755&overwrite=false`)
  })

  test('go up again after a drop, unless they are a stream or conditional', async ({ server, session }) => {
    let drops = 0
    server.intercept = ({ path }) => (path.startsWith(`${BASE}/files/upload`) ? (drops++ === 0 ? 'drop' : { json: uploaded }) : undefined)
    await session.files.upload('a', 'x')
    expect(drops).toBe(2)
    drops = 0
    await expect(session.files.upload('a', 'x', { overwrite: false })).rejects.toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(drops).toBe(1)
  })

  test('[4-104] come down whole, in part, as text and as a stream', async ({ server, session }) => {
    const bytes = pattern(1000)
    server.intercept = ({ path, headers }) => {
      if (!path.startsWith(`${BASE}/files/download`)) return undefined
      if (headers.range === 'bytes=10-19') return { status: 206, bytes: bytes.subarray(10, 20) }
      return { bytes, headers: { etag: '"1"', 'content-length': '1000' } }
    }
    expect(await session.files.download('a')).toEqual(bytes)
    expect(await session.files.download('a', { range: { start: 10, end: 19 } })).toEqual(bytes.slice(10, 20))
    expect(await session.files.text('a')).toBe(new TextDecoder().decode(bytes))
    const { stream, size, etag } = await session.files.stream('a')
    expect({ size, etag }).toEqual({ size: 1000, etag: '"1"' })
    expect(new Uint8Array(await new Response(stream).arrayBuffer())).toEqual(bytes)
  })

  test('are told to exist or not; what cannot be known is an error', async ({ server, session }) => {
    const codes = ['FILE_NOT_FOUND', 'NOT_A_DIRECTORY', 'PERMISSION_DENIED']
    server.intercept = ({ path }) => (path.startsWith(BASE) ? { status: 404, json: envelope(codes.shift() ?? '', 'no') } : undefined)
    expect([await session.files.exists('a'), await session.files.exists('a/b')]).toEqual([false, false])
    await expect(session.files.exists('a')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    server.intercept = ({ path }) => (path.startsWith(BASE) ? { json: ENTRY } : undefined)
    expect(await session.files.exists('a')).toBe(true)
  })

  test('are made, moved and removed although an answer is lost', async ({ server, session }) => {
    const missing = { status: 404, json: envelope('FILE_NOT_FOUND', 'no such file') }
    let asked = 0
    // The first request is carried out, and its answer lost.
    server.intercept = ({ path, method }) => {
      if (!path.startsWith(BASE)) return undefined
      if (path.includes('/files/stat')) return { json: ENTRY }
      if (asked++ === 0) return 'drop'
      return path.includes('/files/mkdir') || method === 'GET' ? { json: {} } : missing
    }
    for (const change of ['mkdir', 'move', 'delete'] as const) {
      asked = 0
      await (change === 'move' ? session.files.move('a', 'b') : session.files[change]('a'))
      expect([change, asked]).toEqual([change, 2])
    }
    // Without a lost answer what is not there is an error, and so is a move whose target is not there either.
    await expect(session.files.delete('a')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
    asked = 0
    server.intercept = ({ path }) => (path.startsWith(BASE) ? (asked++ === 0 ? 'drop' : missing) : undefined)
    await expect(session.files.move('a', 'b')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND' })
  })

  test('[4-107] are listed over pages, and changed', async ({ server, session }) => {
    const entry = (path: string) => ({ path, type: 'file', size: 1, mtime: '2026-11-22T00:00:00Z', mode: '0644' })
    server.intercept = ({ path, method }) => {
      if (path.startsWith(`${BASE}/files/stat`)) return { json: entry('a') }
      if (method !== 'GET') return path.startsWith(BASE) ? { status: method === 'DELETE' ? 204 : 200, json: {} } : undefined
      return {
        json: path.includes('cursor=n')
          ? { files: [entry('c')], truncated: false, next_cursor: null }
          : { files: [entry('a')], truncated: true, next_cursor: 'n' },
      }
    }
    expect((await session.files.list('.', { pattern: '*.py', type: 'any' })).map(({ path }) => path)).toEqual(['a', 'c'])
    expect((await session.files.stat('a')).mode).toBe('0644')
    await session.files.mkdir('d', { root: 'sandbox' })
    await session.files.move('a', 'b', { overwrite: true })
    await session.files.delete('d', { recursive: true })
    expect(server.requests.slice(-3).map(({ method, path, body }) => [method, path.slice(BASE.length), body.toString()])).toEqual([
      ['POST', '/files/mkdir?root=sandbox', '{"path":"d"}'],
      ['POST', '/files/move', '{"from":"a","to":"b","overwrite":true}'],
      ['DELETE', '/files?path=d&recursive=true', ''],
    ])
  })

  test('that are missing are a typed error', async ({ server, session }) => {
    server.intercept = ({ path }) =>
      path.startsWith(BASE) ? { status: 404, json: envelope('FILE_NOT_FOUND', 'a: no such file') } : undefined
    await expect(session.files.download('a')).rejects.toMatchObject({ code: 'FILE_NOT_FOUND', status: 404 })
  })
})

describe('a file as a stream', () => {
  const bytes = pattern(1000)
  const read = async (stream: ReadableStream<Uint8Array>) => new Uint8Array(await new Response(stream).arrayBuffer())

  /** Serves ranges of `bytes` under `etag`, and breaks off after each `piece` of them. */
  const serve = (server: FakeServer, { piece = 300, etag = (): string => '"1"' } = {}): Recorded[] => {
    const asked: Recorded[] = []
    server.intercept = (request) => {
      if (!request.path.startsWith(`${BASE}/files/download`)) return undefined
      asked.push(request)
      const tag = etag()
      const { range, 'if-range': condition } = request.headers
      const ranged = range !== undefined && (condition === undefined || condition === tag)
      const [start = 0, end = 999] = ranged ? (range.match(/\d+/g) ?? []).map(Number) : []
      const part = bytes.subarray(start, end + 1)
      const headers = { 'content-length': String(part.length), ...(tag === '' ? {} : { etag: tag }) }
      const answer = { bytes: part, headers, ...(part.length > piece ? { cutAfter: piece } : {}) }
      return ranged ? { ...answer, status: 206, headers: { ...headers, 'content-range': `bytes ${start}-${end}/1000` } } : answer
    }
    return asked
  }

  test('goes on with the next byte after a dropped connection', async ({ server, session }) => {
    const asked = serve(server)
    const { stream, size } = await session.files.stream('a')
    expect(size).toBe(1000)
    expect(await read(stream)).toEqual(bytes)
    expect(asked.map(({ headers }) => [headers.range, headers['if-range']])).toEqual([
      [undefined, undefined],
      ['bytes=300-', '"1"'],
      ['bytes=600-', '"1"'],
      ['bytes=900-', '"1"'],
    ])
  })

  test('goes on within the range that was asked for', async ({ server, session }) => {
    const asked = serve(server)
    const { stream } = await session.files.stream('a', { range: { start: 100, end: 799 } })
    expect(await read(stream)).toEqual(bytes.slice(100, 800))
    expect(asked.map(({ headers }) => headers.range)).toEqual(['bytes=100-799', 'bytes=400-799', 'bytes=700-799'])
  })

  test('ends when the file has changed: its parts are not joined', async ({ server, session }) => {
    let version = 0
    serve(server, { etag: () => `"${++version}"` })
    const { stream } = await session.files.stream('a')
    await expect(read(stream)).rejects.toMatchObject({
      code: 'PRECONDITION_FAILED',
      message: '"a" has changed while it was read; read it again',
    })
  })

  test('ends with a ConnectionError where it cannot go on, and when nothing more comes', async ({ server, session }) => {
    for (const etag of ['', 'W/"1"']) {
      const asked = serve(server, { etag: () => etag })
      const { stream } = await session.files.stream('a')
      await expect(read(stream)).rejects.toBeInstanceOf(ConnectionError)
      expect(asked).toHaveLength(1)
    }
    const asked = serve(server, { piece: 0 })
    const { files } = await server.client({ reconnectWindowMs: 1 }).session('thread-1')
    const { stream } = await files.stream('a')
    await expect(read(stream)).rejects.toMatchObject({ code: 'CONNECTION_FAILED', name: 'ConnectionError' })
    expect(asked.length).toBeGreaterThan(1)
  })

  test('as an archive ends with a ConnectionError', async ({ server, session }) => {
    const asked = serve(server)
    const { stream } = await session.files.downloadArchive('.')
    await expect(read(stream)).rejects.toMatchObject({ code: 'CONNECTION_FAILED', name: 'ConnectionError' })
    expect(asked).toHaveLength(1)
  })

  test('ends with the reason of an abort, and a canceled one asks for nothing more', async ({ server, session }) => {
    const asked = serve(server)
    const controller = new AbortController()
    const { stream } = await session.files.stream('a', { signal: controller.signal })
    const reader = stream.getReader()
    await reader.read()
    controller.abort(new Error('enough'))
    await expect(reader.read().then(() => reader.read())).rejects.toThrow('enough')
    const canceled = await session.files.stream('a')
    await canceled.stream.cancel()
    expect(asked).toHaveLength(2)
  })
})
