import { expect, test } from 'vitest'
import { parseEndpoint } from '../src/addresses/endpoint.ts'

test.each([
  ['http://agent.example', false, { host: 'agent.example', port: 80 }, 'agent.example', ''],
  ['https://agent.example/', true, { host: 'agent.example', port: 443 }, 'agent.example', ''],
  ['https://agent.example:8443/base//', true, { host: 'agent.example', port: 8443 }, 'agent.example:8443', '/base'],
  ['http://[::1]:7071', false, { host: '::1', port: 7071 }, '[::1]:7071', ''],
  ['unix:/run/agent.sock', false, { socketPath: '/run/agent.sock' }, 'localhost', ''],
])('parseEndpoint(%j)', (url, secure, address, authority, basePath) => {
  expect(parseEndpoint(url)).toEqual({ secure, address, authority, basePath })
})

test('what is no URL throws', () => {
  expect(() => parseEndpoint('agent.example')).toThrow(TypeError)
})
