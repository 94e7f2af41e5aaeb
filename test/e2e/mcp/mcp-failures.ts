import { execFileSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, request } from '../support/api.ts'
import { containersOf } from '../support/engine.ts'
import { connectTo, grantOf, type ServerRecord, serversApi } from '../support/mcp-servers.ts'
import { openCopies } from '../support/open-checkout.ts'
import { writeProject, writeRequirements } from '../support/python-project.ts'
import { API_KEY, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

const EXAMPLE = openCopies('test/e2e/example/mcp/server.py')
const OFF = { network: 'off', startup_timeout_sec: 30 }

/** A stdio server that does as its tools are told. */
const example = (name: string, fields: Record<string, unknown> = {}) => ({
  ...{ name, pipeline_uuid: name, command: 'python3', args: [`${EXAMPLE}/server.py`], box: OFF },
  ...fields,
})

/** What goes wrong with MCP servers, for real: in each of the seven phases, and that nothing is left of it. */
export const mcpFailuresSuite = (provider: ProviderName): void => {
  describe(`${provider}: MCP servers that fail`, () => {
    let stack: Stack
    let servers: ReturnType<typeof serversApi>
    let projects: string
    let installId: string
    /** What is left on the agent's side: directories of sandboxes, and containers. */
    const sandboxes = (): string[] => [
      ...readdirSync(join(stack.agentDataDir, 'sandboxes')),
      ...(provider === 'docker' ? containersOf(installId) : []),
    ]
    const hasSession = async (record: ServerRecord): Promise<boolean> =>
      (await brokerApi(stack.brokerUrl).negotiate({ thread_id: record.box_session_id, mode: 'get' })).status === 200

    beforeAll(async () => {
      projects = await mkdtemp(join(tmpdir(), 'mcp-projects-'))
      await chmod(projects, 0o755)
      stack = await startStack({ provider })
      servers = serversApi(stack)
      installId = await readFile(join(stack.agentDataDir, 'install-id'), 'utf8')
    })
    afterAll(async () => {
      await stack?.[Symbol.asyncDispose]()
      await rm(projects, { recursive: true, force: true })
    })

    const add = async (server: Record<string, unknown>): Promise<ServerRecord> => {
      const reply = await servers.call('POST', '', server)
      expect(reply.status, reply.text).toBe(201)
      return reply.body as ServerRecord
    }
    /** Waits for the first failure of a server, and looks at it unless the server is back: it stays away for two seconds only. */
    const failsOnce = async (name: string, error_message: RegExp): Promise<void> => {
      let seen: ServerRecord | undefined
      const look = async (): Promise<ServerRecord> => {
        seen = await servers.get(name)
        return seen
      }
      await expect.poll(look).toMatchObject({ retry_count: 1 })
      if (seen?.status === 'retrying') expect(seen).toMatchObject({ error_phase: 'runtime', error_message })
    }
    const remove = async (name: string): Promise<void> => expect((await servers.call('DELETE', `/${name}`)).status).toBe(204)

    test('[2-89, 2-90, 2-93, 2-96] the phases of a start: each fails by its name after 4 attempts, and no sandbox is left', async () => {
      writeRequirements(`${projects}/needs`, '--no-index\nno-such-package-anywhere\n')
      const cases: [string, Record<string, unknown>, RegExp][] = [
        // An administrator's paths need no allowed root; what is blocked is blocked for them too.
        ['session_create', example('f1', { box: { ...OFF, host_path: '/etc' } }), /etc/],
        ['dep_install', example('f2', { args: [`${projects}/needs/server.py`] }), /not installed \(exit code/],
        ['process_start', example('f3', { command: '/no/such/program', args: [], box: { ...OFF, host_path_mode: 'none' } }), /no\/such/],
        [
          'mcp_init',
          example('f5', { command: 'sleep', args: ['600'], box: { ...OFF, host_path_mode: 'none', startup_timeout_sec: 3 } }),
          /./,
        ],
      ]
      // The thread is somebody's who thought of its name first: what the server knows is not for them.
      const made = await request(`${stack.brokerUrl}/v1/keys`, {
        method: 'POST',
        headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'early', principal: 'early' }),
      })
      const { key } = made.body as { key: string }
      const early = await brokerApi(stack.brokerUrl, key).ensure('mcp-pipeline-taken')
      const taken = add(example('taken', { box: { host_path_mode: 'none' } }))
      const failed = await Promise.all(cases.map(([, server]) => add(server)))
      expect(await taken).toMatchObject({ error_phase: 'session_create', error_message: /belongs to somebody else/ })
      await remove('taken')
      expect((await brokerApi(stack.brokerUrl, key).release(early.session_id)).status).toBe(204)
      for (const [index, [phase, , message]] of cases.entries()) {
        const record = failed[index] as ServerRecord
        expect(record, phase).toMatchObject({ status: 'error', error_phase: phase, retry_count: 3, tool_count: 0 })
        expect(record.error_message).toMatch(/^Failed after 4 attempts: /)
        expect(record.error_message).toMatch(message)
        expect(await hasSession(record), phase).toBe(false)
      }
      await eventually('no sandbox is left', () => sandboxes().length === 0)
      for (const { name } of failed) await remove(name)
    }, 120_000)

    test('[2-89] a tool that fails, and one that ends its server: tool_call, then runtime, then it works again', async () => {
      const record = await add(example('tools'))
      expect(record).toMatchObject({ status: 'connected', tool_count: 4 })
      const client = await connectTo(record.url, (await grantOf(stack, record)).token)
      await expect(client.callTool({ name: 'fail', arguments: {} })).rejects.toThrow('as it was asked to')
      expect(await servers.get('tools')).toMatchObject({ status: 'connected', error_phase: 'tool_call', error_message: /asked to/ })
      expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({ content: [{ text: 'hello' }] })
      expect(await servers.get('tools')).toMatchObject({ status: 'connected', error_phase: null })

      await expect(client.callTool({ name: 'exit', arguments: {} })).rejects.toThrow()
      await failsOnce('tools', /exit code 3/)
      expect(await servers.connected('tools')).toMatchObject({ retry_count: 1 })
      expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({ content: [{ text: 'hello' }] })
      await client.close()
      await remove('tools')
    })

    test('[2-92] a server that is killed is back, in the same sandbox', async () => {
      const record = await add(example('killed'))
      const grant = await grantOf(stack, record)
      const kill = `for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null | grep -q 'killed/[s]erver.py' && kill -9 \${p#/proc/} && echo killed; done; true`
      expect((await dataplane(grant, 'POST', '/exec', { command: kill })).body).toMatchObject({ exit_code: 0, stdout: 'killed\n' })
      await failsOnce('killed', /SIGKILL/)
      expect(await servers.connected('killed')).toMatchObject({ session_id: record.session_id, retry_count: 1 })
      await remove('killed')
    })

    test('[2-93] a server that is deleted goes with its process; the sandbox goes with the last one there', async () => {
      const [a, b] = [await add(example('first', { pipeline_uuid: 'both' })), await add(example('second', { pipeline_uuid: 'both' }))]
      expect(a.box_session_id).toBe(b.box_session_id)
      await servers.connected('first')
      await remove('second')
      expect((await servers.connected('first')).tool_count).toBe(4)
      const { body } = await dataplane(await grantOf(stack, a), 'GET', '/processes')
      const running = (body as { processes: { process_id: string; status: string }[] }).processes.filter(
        ({ status }) => status === 'running',
      )
      expect(running.map(({ process_id }) => process_id)).toEqual(['first'])
      await remove('first')
      expect(await hasSession(a)).toBe(false)
      await eventually('its sandbox is gone', () => sandboxes().length === 0)
      expect((await servers.call('GET', '/first')).status).toBe(404)
    })

    test('[0-44, 2-93] what was added is there after the broker was killed, in the same sandbox', async () => {
      const record = await add(example('kept'))
      await stack.broker().kill('SIGKILL')
      await stack.startBroker()
      expect(await servers.connected('kept')).toMatchObject({ session_id: record.session_id, tool_count: 4 })
      await remove('kept')
    })

    if (provider === 'docker') {
      test('[2-85, 2-86, 2-87, 2-88] a project with a virtual environment, mounted read-only: its dependency is built from a copy, its python is the image\u2019s', async () => {
        const project = `${projects}/built`
        writeProject(project)
        const record = await add(
          example('built', { command: `${project}/.venv/bin/python`, args: [`${project}/server.py`, '--greeting'], box: OFF }),
        )
        expect(record).toMatchObject({ status: 'connected' })
        const grant = await grantOf(stack, record)
        expect((await dataplane(grant, 'POST', '/exec', { command: 'touch /workspace/.mcp/built/x' })).body).toMatchObject({ exit_code: 1 })
        const client = await connectTo(record.url, grant.token)
        expect(await client.callTool({ name: 'greet', arguments: {} })).toMatchObject({ content: [{ text: 'hello from the wheel' }] })
        await client.close()
        await remove('built')
      })

      test('[2-87, 2-88] requirements.txt with a local wheel, mounted read-only', async () => {
        writeProject(`${projects}/wheel`)
        writeRequirements(`${projects}/listed`, '--no-index\n./greeting-1.0-py3-none-any.whl\n')
        execFileSync('python3', ['-c', `import backend; backend.build_wheel(${JSON.stringify(`${projects}/listed`)})`], {
          cwd: `${projects}/wheel`,
        })
        const record = await add(example('listed', { args: [`${projects}/listed/server.py`, '--greeting'] }))
        expect(record).toMatchObject({ status: 'connected', error_message: null })
        await remove('listed')
      })
    }
  })
}

/** A socket that the agent refuses, because too many were opened: the one phase that takes an agent of its own. */
export const relayConnectSuite = (provider: ProviderName): void => {
  test(`[2-89, 2-92] ${provider}: a process whose socket cannot be had fails in relay_connect, and its neighbour does not notice`, async () => {
    const directory = await mkdtemp(join(tmpdir(), 'mcp-agent-'))
    const config = join(directory, 'agent.json')
    await writeFile(config, JSON.stringify({ dataplane_rates: { ws_open_per_principal: { per_second: 0.001, burst: 1 } } }))
    const stack = await startStack({ provider, agentArgs: ['--config', config] })
    try {
      const servers = serversApi(stack)
      // The first takes the one socket that there is: a start that is cut short would leave none for its next attempt.
      expect((await servers.call('POST', '', example('one', { box: { ...OFF, startup_timeout_sec: 60 } }))).body).toMatchObject({
        status: 'connected',
      })
      const { body } = await servers.call('POST', '', example('two', { box: { ...OFF, startup_timeout_sec: 3 } }))
      expect(body).toMatchObject({ status: 'error', error_phase: 'relay_connect', retry_count: 3 })
      expect(await servers.get('one')).toMatchObject({ status: 'connected', tool_count: 4 })
    } finally {
      await stack[Symbol.asyncDispose]()
      await rm(directory, { recursive: true, force: true })
    }
  }, 120_000)
}
