import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { type KubernetesApi, kubernetesApi } from '../../../src/providers/kubernetes/api.ts'
import { jsonLines } from '../../../src/providers/kubernetes/json-lines.ts'
import { createPodWatch } from '../../../src/providers/kubernetes/pod-watch.ts'
import { silent } from '../../host/support/host.ts'

let server: Server | undefined
let api: KubernetesApi | undefined
afterEach(async () => {
  api?.close()
  server?.closeAllConnections()
  server?.close()
})

type Answer = (request: IncomingMessage, response: ServerResponse, asked: number) => void

/** A server that speaks as an API server does, for what a real one does not do when it is asked to. */
const serve = async (answer: Answer, token?: () => string): Promise<KubernetesApi> => {
  let asked = 0
  server = createServer((request, response) => answer(request, response, ++asked)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  api = kubernetesApi({ server: `http://127.0.0.1:${port}`, insecure: false, token })
  return api
}

const json = (response: ServerResponse, status: number, body: object, headers = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
const pod = (name: string, resourceVersion: string, more: object = {}) => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion, labels: {}, ...more },
  spec: {},
})
const line = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`

test('a call that came too early is made again, when the server says so', async () => {
  const { call } = await serve((_, response, asked) =>
    asked < 3 ? json(response, 429, { reason: 'TooManyRequests' }, { 'retry-after': '0' }) : json(response, 200, { asked }),
  )
  expect(await call('GET', '/pods')).toEqual({ asked: 3 })
})

test('a refusal has its status, its reason and the fields that it is about, and is not repeated', async () => {
  let asked = 0
  const { call } = await serve((_, response) => {
    asked++
    json(response, 422, { reason: 'Invalid', message: 'no', details: { causes: [{ field: 'spec.x' }] } })
  })
  await expect(call('POST', '/pods', {})).rejects.toMatchObject({ status: 422, reason: 'Invalid', fields: ['spec.x'] })
  expect(asked).toBe(1)
})

test('a token that the server does not take any more is read anew, once', async () => {
  let current = 'old'
  const seen: (string | undefined)[] = []
  const { call } = await serve(
    ({ headers }, response) => {
      seen.push(headers.authorization)
      if (headers.authorization === 'Bearer new') return json(response, 200, { ok: true })
      current = 'new'
      json(response, 401, { reason: 'Unauthorized' })
    },
    () => current,
  )
  expect(await call('GET', '/pods')).toEqual({ ok: true })
  expect(seen).toEqual(['Bearer old', 'Bearer new'])
})

test('a page of a proxy in between is an error of its status', async () => {
  const { call } = await serve((_, response) => void response.writeHead(502).end('<html>bad gateway</html>'))
  await expect(call('GET', '/pods')).rejects.toMatchObject({ status: 502 })
})

test('lines of JSON are read however they are cut', async () => {
  const text = '{"a":"é\\n"}\n\n{"b":2}\r\n{"c":3}\n{"cut'
  for (const size of [1, 2, 3, 7, 100]) {
    const cut = async function* () {
      for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size)
    }
    expect(await Array.fromAsync(jsonLines(cut()))).toEqual([{ a: 'é\n' }, { b: 2 }, { c: 3 }])
  }
})

test('a watch goes on where the last one ended, and lists anew where the server has forgotten that', async () => {
  const versions: (string | null)[] = []
  let lists = 0
  const gone = { metadata: {}, kind: 'Status', code: 410 }
  const { promise: isHeld, resolve: held } = Promise.withResolvers<void>()
  const connection = await serve(({ url = '' }, response) => {
    const query = new URL(url, 'http://api').searchParams
    expect(query.get('labelSelector')).toBe('a=b')
    if (!query.has('watch')) {
      lists++
      const items = lists === 1 ? [pod('first', '1'), pod('second', '2')] : [pod('second', '20'), pod('third', '21')]
      return json(response, 200, { metadata: { resourceVersion: lists === 1 ? '5' : '25' }, items })
    }
    versions.push(query.get('resourceVersion'))
    if (versions.length === 1) return void response.end(line('ADDED', pod('more', '6')) + line('BOOKMARK', pod('', '9')))
    if (versions.length === 2) return void response.end(line('MODIFIED', pod('first', '10')) + line('DELETED', pod('more', '11')))
    if (versions.length === 3) return void response.end(line('ERROR', gone))
    response.write(line('DELETED', pod('third', '26')))
    held()
  })
  const watch = createPodWatch({ api: connection, path: '/pods', labelSelector: 'a=b', log: silent })
  await isHeld
  await watch.gone('third')
  expect(versions).toEqual(['5', '9', '11', '25'])
  expect(watch.all().map(({ metadata: { name, resourceVersion } }) => [name, resourceVersion])).toEqual([['second', '20']])
  expect(watch.isCurrent).toBe(true)
  expect([watch.ended('third'), watch.ended('first'), watch.ended('more')].map((ended) => ended?.metadata.resourceVersion)).toEqual([
    ...['26', '10', '11'],
  ])
  watch.put(pod('third', '24'))
  expect(watch.get('third')).toBeUndefined()
  await watch.close()
})

test('a pod whose end no watch tells of is asked for', async () => {
  const connection = await serve(({ url = '' }, response) => {
    if (url.startsWith('/pods/one')) return json(response, 404, { reason: 'NotFound' })
    if (url.includes('watch=1')) return void response.writeHead(200).flushHeaders()
    json(response, 200, { metadata: { resourceVersion: '1' }, items: [pod('one', '1')] })
  })
  const watch = createPodWatch({ api: connection, path: '/pods', labelSelector: 'a=b', log: silent })
  await watch.ready()
  await watch.gone('one')
  expect(watch.all()).toEqual([])
  await watch.close()
})

test('a server that refuses the list says so to whoever waits for it, and is asked again', async () => {
  const connection = await serve(({ url = '' }, response, asked) => {
    if (asked === 1) return json(response, 403, { reason: 'Forbidden' })
    if (url.includes('watch=1')) return void response.writeHead(200).flushHeaders()
    json(response, 200, { metadata: { resourceVersion: '1' }, items: [] })
  })
  const watch = createPodWatch({ api: connection, path: '/pods', labelSelector: 'a=b', log: silent })
  await expect(watch.ready()).rejects.toMatchObject({ status: 403 })
  await watch.ready()
  await expect.poll(() => watch.isCurrent).toBe(true)
  await watch.close()
})
