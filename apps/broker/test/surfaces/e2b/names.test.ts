import { expect, test } from 'vitest'
import type { E2bSandbox } from '../../../src/store/e2b-store.ts'
import { isSandboxId, newSandboxId } from '../../../src/surfaces/e2b/call/access-tokens.ts'
import { readCreate, readTimeout } from '../../../src/surfaces/e2b/control/create-request.ts'
import { readListing, selects } from '../../../src/surfaces/e2b/control/listing.ts'
import { toEntry } from '../../../src/surfaces/e2b/filesystem/entries.ts'
import { newProcess, processOfExec, selected } from '../../../src/surfaces/e2b/process/process-ids.ts'
import { filePath, samePlace } from '../../../src/surfaces/facade/paths.ts'

const refused = (code: string) => expect.objectContaining({ code })

test('ids of sandboxes are twenty lower-case letters and digits', () => {
  const ids = Array.from({ length: 100 }, newSandboxId)
  expect(ids.filter((id) => !isSandboxId(id))).toEqual([])
  expect(new Set(ids).size).toBe(100)
  for (const bad of ['', 'A'.repeat(20), 'a'.repeat(19), `${'a'.repeat(19)}/`]) expect(isSandboxId(bad)).toBe(false)
})

test('the number of a process tells its exec id and its kind', () => {
  for (const kind of ['exec', 'shell'] as const) {
    const made = newProcess(kind)
    expect(processOfExec(made.id)).toEqual(made)
    expect(selected({ pid: made.pid })).toEqual(made)
    expect(made.kind).toBe(kind)
    expect(made.pid).toBeLessThan(2 ** 31)
  }
  for (const other of ['e2b-', 'e2b-0', 'e2b-1x', 'x-e2b-1', 'e2b-12345678901']) expect(processOfExec(other)).toBeUndefined()
  expect(() => selected({ tag: 'a' })).toThrow(refused('UNSUPPORTED'))
})

test('paths are of the workspace or of the sandbox', () => {
  expect(filePath('a/b')).toEqual({ absolute: '/workspace/a/b', query: { path: 'a/b' } })
  expect(filePath('/workspace//a')).toEqual({ absolute: '/workspace/a', query: { path: 'a' } })
  expect(filePath('')).toEqual({ absolute: '/workspace', query: { path: '' } })
  expect(filePath('/tmp/../etc')).toEqual({ absolute: '/etc', query: { path: '/etc', root: 'sandbox' } })
  expect(filePath('../workspace2')).toEqual({ absolute: '/workspace2', query: { path: '/workspace2', root: 'sandbox' } })
  expect(() => filePath('a\0b')).toThrow(refused('INVALID_PATH'))
  expect(samePlace(filePath('a'), filePath('b'))).toEqual({ from: 'a', to: 'b' })
  expect(samePlace(filePath('a'), filePath('/tmp/b'))).toEqual({ from: '/workspace/a', to: '/tmp/b', root: 'sandbox' })
})

test('an entry has its mode as number and text, and its size as text', () => {
  const entry = toEntry({ path: 'x', type: 'directory', size: 4096, mtime: '2026-01-02T03:04:05.000Z', mode: '0750' }, '/workspace/x')
  expect(entry).toMatchObject({ name: 'x', type: 'FILE_TYPE_DIRECTORY', size: '4096', mode: 0o750, permissions: 'drwxr-x---' })
})

test('a request to create has defaults, and what is not served is refused', () => {
  expect(readCreate({})).toMatchObject({ templateID: 'base', timeout: 300, metadata: {} })
  expect(readCreate({ envVars: {}, mcp: null, allow_internet_access: true })).toMatchObject({ timeout: 300 })
  for (const field of ['mcp', 'network', 'iam', 'volumeMounts', 'secrets'])
    expect(() => readCreate({ [field]: { a: 'b' } })).toThrow(refused('UNSUPPORTED'))
  expect(() => readCreate({ autoResume: { enabled: true } })).toThrow(refused('UNSUPPORTED'))
  for (const bad of [{ timeout: -1 }, { timeout: 'x' }, { metadata: { a: 1 } }, [], null, 'x'])
    expect(() => readCreate(bad)).toThrow(refused('INVALID_REQUEST'))
  expect(readTimeout({ timeout: 5 })).toBe(5)
  expect(() => readTimeout({ memory: false })).toThrow(refused('UNSUPPORTED'))
})

const sandbox: E2bSandbox = {
  id: 'a'.repeat(20),
  tenant: 't',
  principal: 'p',
  sessionId: 'ssn_1',
  threadId: 'e2b/a',
  template: 'base',
  metadata: { 'a&b': 'c=d' },
  autoPause: false,
  madeSession: true,
  startedAt: Date.parse('2026-01-02T00:00:00Z'),
  endAt: 0,
  paused: true,
}

test.for([
  [{}, true],
  [{ state: 'paused,running' }, true],
  [{ state: 'running' }, false],
  [{ template: 'other' }, false],
  [{ startedAfter: '2026-01-01T00:00:00Z' }, true],
  [{ startedAfter: '2026-01-03T00:00:00Z' }, false],
  [{ metadata: new URLSearchParams({ [encodeURIComponent('a&b')]: encodeURIComponent('c=d') }).toString() }, true],
  [{ metadata: 'a=b' }, false],
] as const)('%j selects the sandbox: %s', ([query, wanted]) => {
  expect(selects(readListing(query), sandbox)).toBe(wanted)
})

test('a listing has a limit', () => {
  expect(readListing({}).limit).toBe(100)
  for (const bad of [{ limit: '0' }, { limit: '101' }, { limit: 'x' }]) expect(() => readListing(bad)).toThrow(refused('INVALID_REQUEST'))
  expect(() => readListing({ order: 'desc' })).toThrow(refused('UNSUPPORTED'))
})
