import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requireHost, SERVER_OPTIONS } from '../src/index.ts'

const server = createServer(
  SERVER_OPTIONS,
  requireHost((_, response) => response.end('served')),
)
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => server.close())

const ask = async (...headers: string[]): Promise<string> => {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk) => {
    text += String(chunk)
  })
  socket.write(['GET / HTTP/1.1', ...headers, 'Connection: close', '', ''].join('\r\n'))
  await once(socket, 'close')
  return text
}

test.each([
  ['Host: a', 'host: b'],
  ['Host: a', 'Authorization: Bearer x', 'AUTHORIZATION: Bearer x'],
  ['Host: a', 'X-Api-Key: x', 'X-Api-Key: y'],
])('[2.1] %j, %j: a header that may be there once is 400 when it is there twice', async (...headers) => {
  const text = await ask(...headers)
  expect(text).toMatch(/^HTTP\/1.1 400/)
  expect(text).toContain('"code":"INVALID_REQUEST"')
})

test('others may be there twice, and each of these once', async () => {
  expect(await ask('Host: a', 'Authorization: Bearer x', 'X-Api-Key: x', 'Accept: a/b', 'Accept: c/d')).toMatch(/^HTTP\/1.1 200/)
})
