import { CAPABILITIES, type Capability } from '@boxoffice/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { execRoutes } from '../../../src/dataplane/exec.ts'
import { fileRoutes } from '../../../src/dataplane/files/routes.ts'
import { TestDataplane } from '../../support/dataplane.ts'
import { TestSocket } from '../../support/socket.ts'

const GRANTS = [...CAPABILITIES, 'none'] as const

let dp: TestDataplane
const tokens = new Map<Capability | 'none', string>()

beforeAll(async () => {
  dp = await TestDataplane.start()
  for (const capability of GRANTS) {
    tokens.set(capability, await dp.sign({ caps: capability === 'none' ? [] : [capability] }))
  }
  await dp.exec({ command: 'echo kept > kept; echo out', exec_id: 'ended' })
})
afterAll(() => dp[Symbol.asyncDispose]())

const json = (body: unknown): RequestInit => ({
  method: 'POST',
  body: JSON.stringify(body),
  headers: { 'Content-Type': 'application/json' },
})

type Row = { needs: Capability; path: string; init?: () => RequestInit | Promise<RequestInit>; status?: number }

/** Contract 4-105, route by route: a request that succeeds for whoever has the capability. */
const ROUTES: Record<string, Row> = {
  'POST exec': { needs: 'exec', path: '/exec', init: () => json({ command: 'true' }) },
  'POST execute': { needs: 'exec', path: '/execute', init: () => json({ command: 'true' }) },
  'GET execs': { needs: 'exec', path: '/execs' },
  'GET execs/:id': { needs: 'exec', path: '/execs/ended' },
  'GET execs/:id/output': { needs: 'exec', path: '/execs/ended/output' },
  'POST execs/:id/signal': { needs: 'exec', path: '/execs/ended/signal', init: () => json({ signal: 'TERM' }), status: 409 },
  'POST files/upload': { needs: 'fs_write', path: '/files/upload?path=up', init: () => ({ method: 'POST', body: 'x' }) },
  'POST upload': { needs: 'fs_write', path: '/upload?path=/workspace/up', init: () => ({ method: 'POST', body: 'x' }) },
  'GET files/download': { needs: 'fs_read', path: '/files/download?path=kept' },
  'GET download': { needs: 'fs_read', path: '/download?path=/workspace/kept' },
  'GET files': { needs: 'fs_read', path: '/files' },
  'GET files/stat': { needs: 'fs_read', path: '/files/stat?path=kept' },
  'DELETE files': {
    needs: 'fs_write',
    path: '/files?path=gone',
    init: async () => {
      await dp.fetch('/files/upload?path=gone', { method: 'POST', body: 'x' })
      return { method: 'DELETE' }
    },
    status: 204,
  },
  'POST files/mkdir': { needs: 'fs_write', path: '/files/mkdir', init: () => json({ path: 'made' }) },
  'POST files/move': {
    needs: 'fs_write',
    path: '/files/move',
    init: async () => {
      await dp.fetch('/files/upload?path=from', { method: 'POST', body: 'x' })
      return json({ from: 'from', to: 'to', overwrite: true })
    },
  },
}

const routes = [...execRoutes, ...fileRoutes].map(({ method, path }) => `${method} ${path}`)

test('the table has every route', () => {
  expect(Object.keys(ROUTES).sort()).toEqual([...routes].sort())
})

describe('each route with each single capability, and with none', { tags: ['4-105', 'C-39', 'C-56'] }, () => {
  const methods = routes.flatMap((route) => (route.startsWith('GET ') ? [route, route.replace('GET', 'HEAD')] : [route]))
  const cells = methods.flatMap((name) => GRANTS.map((capability) => [name, capability] as const))

  test.each(cells)('%s with %s', async (name, capability) => {
    const row = ROUTES[name.replace('HEAD', 'GET')] as Row
    const init = { ...((await row.init?.()) ?? {}), ...(name.startsWith('HEAD') ? { method: 'HEAD' } : {}) }
    const response = await dp.fetch(row.path, { ...init, token: tokens.get(capability) as string })
    if (capability === row.needs) return expect(response.status).toBe(row.status ?? 200)
    expect(response.status).toBe(403)
    if (name.startsWith('HEAD')) return
    expect(await response.json()).toMatchObject({
      error: {
        code: 'CAPABILITY_DENIED',
        message: expect.stringMatching(new RegExp(`^${row.needs} not granted\\b`)),
        details: { capability: row.needs },
      },
    })
  })
})

describe('each way to start on a socket', { tags: ['4-105', 'C-56'] }, () => {
  const starts: [string, 'exec' | 'shell', Record<string, unknown>][] = [
    ['an exec', 'exec', { command: 'true' }],
    ['a program', 'exec', { argv: ['true'] }],
    ['an exec that is attached to', 'exec', { attach: 'ended' }],
    ['an exec that is started again', 'exec', { command: 'true', exec_id: 'again' }],
    ['a detached exec', 'exec', { command: 'true', detach: true }],
    ['an exec that is only looked at', 'exec', { attach: 'ended', mode: 'viewer' }],
    ['a shell', 'shell', {}],
    ['a shell of a program', 'shell', { argv: ['true'] }],
    ['a shell that is attached to', 'shell', { attach: 'open' }],
    ['a shell that is only looked at', 'shell', { attach: 'open', mode: 'viewer' }],
  ]
  const cells = starts.flatMap(([name, kind, frame]) => GRANTS.map((capability) => ({ name, kind, frame, capability })))
  let shell: TestSocket

  beforeAll(async () => {
    shell = new TestSocket(`${dp.wsBase}/shell/ws`, 'json', { token: dp.token })
    await shell.frame('auth_ok')
    shell.start({ shell_id: 'open' })
    await shell.frame('ready')
  })
  afterAll(async () => {
    shell.send({ type: 'close' })
    await shell.closed
  })

  test.each(cells)('$name with $capability', async ({ kind, frame, capability }) => {
    const socket = new TestSocket(`${dp.wsBase}/${kind}/ws`, 'json', { token: tokens.get(capability) as string })
    expect(await socket.frame('auth_ok')).toMatchObject({ granted_capabilities: capability === 'none' ? [] : [capability] })
    socket.start(frame)
    if (capability === kind) {
      await socket.frame('ready')
      socket.ws.terminate()
    } else {
      expect((await socket.closed).code).toBe(4403)
      expect(socket.find('error')?.error).toMatchObject({
        code: 'CAPABILITY_DENIED',
        message: expect.stringMatching(new RegExp(`^${kind} not granted\\b`)),
      })
      expect(socket.find('ready')).toBeUndefined()
    }
    await socket.closed
  })
})
