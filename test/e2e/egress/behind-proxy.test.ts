import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect as dial } from 'node:net'
import { connect } from '@boxoffice/client'
import { expect, onTestFinished, test } from 'vitest'
import { API_KEY, startStack } from '../support/stack.ts'

const listen = async (server: Server): Promise<number> => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

test('an agent behind a proxy sends what leaves sandboxes through it, as its variables say', async () => {
  const origin = await listen(createServer(({ headers, url }, response) => response.end(`${headers.host} ${url}`)))
  const asked: string[] = []
  const proxy = createServer().on('connect', ({ url = '', headers }, client) => {
    asked.push(`${url} ${headers['proxy-authorization']}`)
    const onward = dial(origin, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'))
    onward.pipe(client).pipe(onward)
    for (const [one, other] of [[client, onward] as const, [onward, client] as const]) one.on('error', () => other.destroy())
  })
  const credentials = `Basic ${Buffer.from('user:pass').toString('base64')}`
  const agentVariables = { HTTPS_PROXY: `http://user:pass@127.0.0.1:${await listen(proxy)}`, NO_PROXY: 'near.example' }
  await using stack = await startStack({ provider: 'local', agentVariables })
  await using session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('behind', { profile: 'network_basic' })
  const read = async (url: string) => (await session.exec(`curl -sS ${url}`)).stdout

  expect(await read('http://far.example/a')).toBe('far.example /a')
  expect(JSON.parse(await read('http://near.example/b'))).toMatchObject({ code: 'unresolvable' })
  expect(JSON.parse(await read('http://127.0.0.2/c'))).toMatchObject({ code: expect.stringMatching(/not_allowed|private/) })
  expect(asked).toEqual([`far.example:80 ${credentials}`])
  // A password of the agent is nothing that sandboxes see.
  expect((await session.exec('env; cat /proc/*/environ 2>/dev/null')).stdout).not.toContain('user:pass')
  expect(stack.agent().stderr()).not.toContain('user:pass')
})
