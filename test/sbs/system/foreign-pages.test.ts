import { request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sbsClient } from '../support/client.ts'
import { type SbsServer, startSbs } from '../support/server.ts'

let server: SbsServer
beforeAll(async () => {
  server = await startSbs()
})
afterAll(() => server?.[Symbol.asyncDispose]())

/** As a browser sends it: fetch() of Node does not let a program say these headers. */
const send = (method: string, path: string, headers: Record<string, string>): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    request(server.url + path, { method, headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode))
    })
      .on('error', reject)
      .end()
  })
const created = () => server.log().filter(({ msg }) => /session/.test(msg)).length

test('[3-25] a page of another origin starts nothing: 403, whatever it sends', async () => {
  const before = created()
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: server.url.replace(/:\d+$/, ':1') },
    { origin: server.url.replace('http:', 'https:') },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'same-origin', origin: 'https://evil.example' },
    { 'sec-fetch-site': 'cross-site', origin: server.url },
    { 'sec-fetch-site': 'nonsense' },
  ]
  const answers = await Promise.all(
    Array.from({ length: 400 }, (_, i) => send('POST', '/sessions', { 'content-type': 'text/plain', ...foreign[i % foreign.length] })),
  )
  expect(new Set(answers)).toEqual(new Set([403]))
  for (const method of ['DELETE', 'PUT', 'PATCH', 'OPTIONS'])
    expect(await send(method, '/sessions/0b7c5f8e-6f0a-4c58-9a0d-3f5b0a1c2d3e', { origin: 'https://evil.example' })).toBe(403)
  expect(created()).toBe(before)
  const { status, headers } = await sbsClient(server.url).call('POST', '/sessions', undefined, { origin: 'https://evil.example' })
  expect([status, headers.get('x-request-id')]).toEqual([403, expect.stringMatching(/^req_/)])
})

test('[3-25] its own page and programs work, and everybody reads', async () => {
  const own: Record<string, string>[] = [
    {},
    { origin: server.url },
    { 'sec-fetch-site': 'same-origin', origin: server.url },
    { 'sec-fetch-site': 'none' },
  ]
  for (const headers of own) expect(await send('POST', '/sessions', headers)).toBe(200)
  expect(created()).toBeGreaterThan(0)
  for (const path of ['/docs', '/openapi.json'])
    expect(await send('GET', path, { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' })).toBe(200)
  const sbs = sbsClient(server.url)
  expect((await sbs.bash(await sbs.create(), 'echo here')).output).toBe('here\n')
})
