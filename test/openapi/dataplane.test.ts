import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDataplane } from '../../apps/agent/test/support/dataplane.ts'
import { DATAPLANE_DOCUMENT, dataplaneDocument } from '../../deploy/docs/dataplane-openapi.ts'
import { compare, type Document, type Exchange, operationsOf, recorded } from './answers.ts'

const text = readFileSync(DATAPLANE_DOCUMENT, 'utf8')

let dp: TestDataplane
beforeAll(async () => {
  dp = await TestDataplane.start()
})
afterAll(() => dp[Symbol.asyncDispose]())

test('docs/protocol/dataplane.openapi.json is what the routes and schemas give', () => {
  expect(text, 'write it anew with: npm run docs').toBe(dataplaneDocument())
})

test('it is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  expect(await validator.validate(JSON.parse(text))).toEqual({ valid: true })
  expect(validator.version).toBe('3.1')
})

test('what is sent and answered is as it says', async () => {
  const document = JSON.parse(text) as Document
  const exchanges: Exchange[] = []
  await useEverything(exchanges)
  const below = new URL(dp.base).pathname
  const { differences, succeeded } = compare(
    document,
    exchanges.map((exchange) => ({ ...exchange, path: exchange.path.slice(below.length) })),
  )
  expect(differences).toEqual([])
  expect(operationsOf(document).filter((name) => !succeeded.has(name))).toEqual([])
})

/** Calls every operation, and has some of them refused. */
async function useEverything(exchanges: Exchange[]): Promise<void> {
  const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> => {
    const isJson = typeof body === 'object'
    return recorded(fetch, exchanges, dp.base + path, {
      method,
      headers: { authorization: `Bearer ${dp.token}`, ...(isJson && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: isJson ? JSON.stringify(body) : String(body) }),
    })
  }
  const bytes = { 'content-type': 'application/octet-stream' }
  await call('GET', '/ping')
  await call('POST', '/exec', { command: 'echo out; echo err >&2; exit 3', exec_id: 'one-0001' })
  await call('POST', '/exec', { argv: ['/nowhere/at/all'], encoding: 'base64' })
  await call('POST', '/execute', { command: 'true', timeout: 5 })
  await call('POST', '/execute', { command: 'true', timeout: 'long' })
  await call('POST', '/exec', { command: 'sleep 600', detach: true, exec_id: 'two-0002' })
  await call('GET', '/execs?state=all')
  for (const id of ['one-0001', 'two-0002', 'none-0000']) {
    await call('GET', `/execs/${id}`)
    await call('GET', `/execs/${id}/state`)
  }
  await call('GET', '/execs/one-0001/output?stream=stderr&offset=0&limit=10&wait=0')
  await call('POST', '/execs/two-0002/signal', { signal: 'SIGTERM', kill_after_seconds: 1 })
  await call('POST', '/execs/two-0002/signal', { signal: 'TALK' })
  await call('POST', '/files/upload?path=a.txt&mode=0600', 'hello', bytes)
  await call('POST', '/upload?path=b.txt&root=workspace', 'hello', bytes)
  await call('POST', '/files/upload?path=a.txt', 'hello', { ...bytes, 'if-none-match': '*' })
  const { headers } = await call('GET', '/files/download?path=a.txt')
  await call('GET', '/files/download?path=a.txt', undefined, { range: 'bytes=1-2' })
  await call('GET', '/files/download?path=a.txt', undefined, { 'if-none-match': headers.get('etag') ?? '' })
  await call('GET', '/download?path=b.txt&root=workspace')
  await call('GET', '/download?path=none')
  const archive = await call('GET', '/files/download?path=.&archive=tar')
  await call('POST', '/files/mkdir', { path: 'd/e', parents: true })
  await recorded(fetch, exchanges, `${dp.base}/files/upload?path=d&archive=tar`, {
    method: 'POST',
    headers: { authorization: `Bearer ${dp.token}`, ...bytes },
    body: await archive.arrayBuffer(),
  })
  await call('GET', '/files?path=.&type=any&limit=2&pattern=*')
  await call('GET', '/files/stat?path=a.txt&follow=true')
  await call('POST', '/files/move', { from: 'a.txt', to: 'c.txt' })
  await call('POST', '/files/move', { from: 'a.txt', to: 'c.txt' })
  await call('DELETE', '/files?path=d&recursive=true')
  await call('POST', '/processes', { process_id: 'p', command: 'sleep', args: ['600'] })
  await call('POST', '/processes', { process_id: 'p', command: 'sleep', args: ['600'] })
  await call('GET', '/processes')
  await call('GET', '/processes/p')
  await call('DELETE', '/processes/p')
  await call('GET', '/processes/p')
  await call('GET', '/nowhere')
}
