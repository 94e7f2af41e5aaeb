import { createServer } from 'node:http'
import { connect as dial } from 'node:net'
import { connect } from '@boxoffice/client'
import { expect, test } from 'vitest'
import { listening } from '../../../apps/agent/test/support/listening.ts'
import { API_KEY, startStack } from '../support/stack.ts'

test('an agent behind a proxy sends what leaves sandboxes through it, as its variables say', async () => {
  await using origin = await listening(createServer(({ headers, url }, response) => response.end(`${headers.host} ${url}`)))
  const asked: string[] = []
  const tunnels = createServer().on('connect', ({ url = '', headers }, client) => {
    asked.push(`${url} ${headers['proxy-authorization']}`)
    const onward = dial(origin.port, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'))
    onward.pipe(client).pipe(onward)
    for (const [one, other] of [[client, onward] as const, [onward, client] as const]) one.on('error', () => other.destroy())
  })
  await using proxy = await listening(tunnels)
  const credentials = `Basic ${Buffer.from('user:pass').toString('base64')}`
  const agentVariables = { HTTPS_PROXY: `http://user:pass@127.0.0.1:${proxy.port}`, NO_PROXY: 'near.example' }
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
