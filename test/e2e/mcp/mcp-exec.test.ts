import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '@boxoffice/client'
import { type ExecToolOptions, mountExec } from '@boxoffice/mcp'
import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { McpServer } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'
import { startProgram } from '../support/program.ts'
import { API_KEY, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

/** A host with the tool, and a client that keeps the list of tools it is told of. */
const startHost = async (options: ExecToolOptions) => {
  const server = new McpServer({ name: 'host', version: '1.0.0' })
  const stopLooking = await mountExec(server, options)
  let told = 0
  const client = new Client({ name: 'model', version: '1.0.0' })
  client.setNotificationHandler('notifications/tools/list_changed', () => void told++)
  const [here, there] = InMemoryTransport.createLinkedPair()
  await Promise.all([server.connect(here), client.connect(there)])
  return {
    names: async () => (await client.listTools()).tools.map(({ name }) => name),
    tools: async () => (await client.listTools()).tools,
    call: (args: Record<string, unknown>, name = 'exec') => client.callTool({ name, arguments: args }),
    told: () => told,
    async [Symbol.asyncDispose]() {
      stopLooking()
      await client.close()
      await server.close()
    },
  }
}

test('[2-16, 2-11] a model has one tool with four fields, runs commands in one sandbox, and reads what they said', async () => {
  await using stack = await startStack({ provider: 'local' })
  const box = connect(stack.brokerUrl, { apiKey: API_KEY })
  await using host = await startHost({ brokerUrl: stack.brokerUrl, session: () => box.session('talk') })
  const [tool, ...others] = await host.tools()
  expect(others).toEqual([])
  expect(Object.keys(tool?.inputSchema.properties ?? {}).sort()).toEqual(['command', 'env', 'timeout_sec', 'workdir'])
  expect(tool?.inputSchema).toMatchObject({ required: ['command'], additionalProperties: false })
  await host.call({ command: 'echo kept > file' })
  const ran = await host.call({ command: 'cat file; seq 1 5000; exit 3', timeout_sec: '20', env: { A: 'b' } })
  const { id: sessionId } = await box.session('talk')
  expect(ran.structuredContent).toMatchObject({
    ...{ session_id: sessionId, backend: 'local', status: 'completed', ok: false, exit_code: 3, stdout_truncated: true, stderr: '' },
    stdout: expect.stringMatching(/^kept\n1\n2\n.*\.\.\. \[\d+ characters truncated\] \.\.\..*\n5000\n$/s),
  })
  for (const wrong of [{}, { command: ' ' }, { command: 'true', image: 'x' }, { command: 'true', session_id: 'other' }])
    expect(await host.call(wrong)).toMatchObject({ isError: true })
})

test('[0-53, 2-49] without a provider the tool is not offered; while the broker is away it is taken back', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'bxo-'))
  const none = ['--provider', 'docker', '--docker-host', `unix://${dataDir}/none.sock`, '--data-dir', dataDir]
  const up = await startProgram(['up', '--port', '0', '--agent-port', '0', ...none])
  try {
    const session = () => connect(up.ready.broker_url, { apiKey: up.ready.api_key }).session('talk')
    await using host = await startHost({ brokerUrl: up.ready.broker_url, session, name: 'sandbox_exec' })
    expect(await host.names()).toEqual([])
    expect(await host.call({ command: 'true' }, 'sandbox_exec').catch((error: Error) => error.message)).toMatch(/disabled|not found/i)
  } finally {
    await up.stop()
    await rm(dataDir, { recursive: true, force: true })
  }

  await using stack = await startStack({ provider: 'local' })
  const session = () => connect(stack.brokerUrl, { apiKey: API_KEY }).session('talk')
  await using host = await startHost({ brokerUrl: stack.brokerUrl, session, name: 'sandbox_exec', lookEveryMs: 100 })
  expect(await host.names()).toEqual(['sandbox_exec'])
  await stack.broker().kill('SIGKILL')
  await eventually('it is taken back', async () => (await host.names()).length === 0 && host.told() === 1)
  await stack.startBroker()
  await eventually('it is offered again', async () => (await host.names()).length === 1 && host.told() === 2)
  expect((await host.call({ command: 'echo hi' }, 'sandbox_exec')).structuredContent).toMatchObject({ stdout: 'hi\n', ok: true })
})
