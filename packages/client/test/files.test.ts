import { describe, expect } from 'vitest'
import { envelope } from './fixture/fake-server.ts'
import { pattern, test } from './fixture/server-test.ts'

const BASE = '/sandboxes/sb_1/v1'
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
