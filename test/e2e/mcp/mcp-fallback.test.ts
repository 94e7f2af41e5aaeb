import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { brokerApi, request } from '../support/api.ts'
import { connectTo, grantOf, type ServerRecord, serversApi } from '../support/mcp-servers.ts'
import { openCopies } from '../support/open-checkout.ts'
import { startProgram } from '../support/program.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

// The server runs as an unprivileged user.
const example = openCopies('test/e2e/example/mcp/server.py')

const server = { name: 'here', command: 'python3', args: [`${example}/server.py`] }

/** Where nothing isolates: the agent has no provider but processes of the host. */
const withoutIsolation = (mcp: Record<string, unknown>): Promise<Stack> =>
  startStack({ provider: 'local', agentArgs: ['--isolation', 'none'], config: { mcp_servers: [server], mcp } })

test('[2-81] availability: without isolation a server runs on the host where only this machine reaches the broker, with a warning', async () => {
  await using stack = await withoutIsolation({})
  const record = await serversApi(stack).connected('here')
  expect(record).toMatchObject({ isolation: 'none', box_enabled: false, tool_count: 4 })
  expect(stack.broker().stderr()).toMatch(/without isolation/)
  const client = await connectTo(record.url, (await grantOf(stack, record)).token)
  expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({ content: [{ text: 'hello' }] })
  await client.close()
})

test('[0-44] the servers of `up` wait for its own agent: no start says that there is none', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-mcp-up-'))
  const config = join(directory, 'config.json')
  // Of a busy machine nothing is to be concluded here.
  await writeFile(config, JSON.stringify({ mcp_servers: [{ ...server, box: { network: 'off' } }], agent_timeout: 300 }))
  const settings = ['--port', '0', '--agent-port', '0', '--provider', 'local', '--data-dir', directory, '--api-key', API_KEY]
  const up = await startProgram(['up', '--destroy-on-exit', '--config', config, ...settings])
  onTestFinished(async () => {
    await up.stop()
    await rm(directory, { recursive: true, force: true })
  })
  expect(await serversApi({ brokerUrl: up.ready.broker_url }).connected('here')).toMatchObject({ tool_count: 4, retry_count: 0 })
  expect(up.stderr()).not.toMatch(/no agent is connected/)
})

test('[2-81] `up --provider docker` without an engine: MCP servers work, with the local provider; nothing else is made there', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-mcp-engine-'))
  const config = join(directory, 'config.json')
  await writeFile(config, JSON.stringify({ mcp_servers: [server], agent_timeout: 300 }))
  const settings = ['--port', '0', '--agent-port', '0', '--provider', 'docker', '--data-dir', directory, '--api-key', API_KEY]
  const start = () => startProgram(['up', '--config', config, ...settings], { DOCKER_HOST: `unix://${directory}/no-engine.sock` })
  let up = await start()
  onTestFinished(async () => {
    if (up.child.signalCode === 'SIGKILL') up = await start()
    await up.stop()
    await rm(directory, { recursive: true, force: true })
  })
  const works = async () => {
    expect(up.ready.provider).toBe(null)
    const brokerUrl = up.ready.broker_url
    const record = await serversApi({ brokerUrl }).connected('here')
    expect(record).toMatchObject({ tool_count: 4, warnings: expect.arrayContaining([expect.stringMatching(/no engine answered/)]) })
    const client = await connectTo(record.url, (await grantOf({ brokerUrl }, record)).token)
    expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({ content: [{ text: 'hello' }] })
    await client.close()
    const broker = brokerApi(brokerUrl)
    for (const more of [{}, { provider_preference: 'local' }])
      expect((await broker.negotiate({ thread_id: 't', mode: 'ensure', ...more })).status).toBe(503)
    expect((await request(`${brokerUrl}/readyz`)).status).toBe(503)
  }
  await works()
  // A run that could not end its sandboxes: the next one has them.
  await up.kill('SIGKILL')
  up = await start()
  await works()
  await up.stop()
  expect(await readdir(join(directory, 'agent-mcp', 'sandboxes'))).toEqual([])
})

test('[2-81] availability: with mcp.host_fallback off it does not, and says why', async () => {
  await using stack = await withoutIsolation({ host_fallback: false })
  const servers = serversApi(stack)
  // Before the agent has reported there is no provider either.
  await eventually('it says why', async () => (await servers.get('here')).error_message?.includes('host_fallback') === true)
  expect(await servers.get('here')).toMatchObject({
    ...{ status: 'unavailable', error_phase: 'session_create', error_message: /^box_unavailable: /, retry_count: 0, session_id: null },
  })
})

test('[2-81, 0-44] availability: without a provider the product starts; the server begins when one is there', async () => {
  await using stack = await startStack({ provider: 'local', config: { mcp_servers: [{ ...server, box: { network: 'off' } }] } })
  const servers = serversApi(stack)
  await servers.connected('here')
  await stack.agent().stop()
  await stack.broker().stop()
  await stack.startBroker()
  expect((await request(`${stack.brokerUrl}/healthz`)).status).toBe(200)
  await eventually('it is told', async () => (await servers.get('here')).status === 'unavailable')
  // Of the agent's last heartbeat the broker still knows, so that it may be one that does not answer: that is no failure of the server.
  expect(await servers.get('here')).toMatchObject({
    ...{ error_phase: 'session_create', error_message: /^box_unavailable: (no agent|agent \S+ cannot be reached)/, retry_count: 0 },
  })
  await stack.startAgent()
  expect((await servers.connected('here')) satisfies ServerRecord).toMatchObject({ tool_count: 4, retry_count: 0 })
})

test.each([
  ['a name twice', { mcp_servers: [server, server] }, /mcp_servers: "here" is there twice/],
  ['no command', { mcp_servers: [{ name: 'here' }] }, /mcp_servers/],
  ['a name that is a path', { mcp_servers: [{ ...server, name: '../x' }] }, /mcp_servers/],
  [
    'a pipeline whose server is wrong',
    { box: { pipelines: [{ uuid: 'p', mcp_servers: [{ name: 'x' }] }] } },
    /box\.pipelines\.0\.mcp_servers\.0/,
  ],
  ['an unknown setting of mcp', { mcp: { hostFallbak: true } }, /mcp/],
])('[2-82, 0-44] settings that cannot be are refused at the start: %s', async (_what, config, message) => {
  const directory = await mkdtemp(join(tmpdir(), 'mcp-settings-'))
  await writeFile(join(directory, 'config.json'), JSON.stringify(config))
  const args = ['broker', '--port', '0', '--data-dir', join(directory, 'data'), '--config', join(directory, 'config.json')]
  await expect(startProgram(args)).rejects.toThrow(message)
  await rm(directory, { recursive: true })
})
