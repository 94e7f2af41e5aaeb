import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { connect, type Session } from '@boxoffice/client'

import { BoxofficeSandbox } from '@boxoffice/deepagents'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Sandbox } from 'e2b'
import { type Comparison, inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round, type StackAddress } from './row.ts'

const COUNT = 200
const WARM_UP = 100
const PYTHON_SOURCES = fileURLToPath(new URL('../../../packages/client-python/src', import.meta.url))
const PYTHON = fileURLToPath(new URL('../../../.tools/python/bin/python', import.meta.url))

export const needs: Needs = { local: [] }

/** A block of one client: the times of so many runs of `true`, in milliseconds. */
type Timed = { run(count: number): Promise<number[]>; close(): Promise<void> }

/** `true`, by each client, against `session.exec('true')` of our SDK in the same sandbox. */
export async function* run({ local: stack }: RowContext): AsyncIterable<Row> {
  const session = await connect(stack.brokerUrl, { apiKey: stack.apiKey }).session('bench-clients')
  const sdk = async (): Promise<number> => median(await timeEach(COUNT, () => sdkExec(session)))
  await timeEach(WARM_UP, () => sdkExec(session))
  const against = async (start: (stack: StackAddress) => Promise<Timed>): Promise<Comparison> => {
    const client = await start(stack)
    try {
      await client.run(WARM_UP)
      return await inTurn(async () => median(await client.run(COUNT)), sdk)
    } finally {
      await client.close()
    }
  }

  yield timesRow('`execute` of @boxoffice/deepagents, local, p50', 1.5, await against(deepagents))
  yield timesRow('`commands.run` of e2b through the facade, local, p50', 2, await against(e2b))
  yield timesRow('`exec` of the Python client, local, p50', 2, await against(python))
  const mcpExec = await against(mcp)
  const more = mcpExec.ours - mcpExec.theirs
  yield {
    row: '`exec` of MCP over streamable HTTP, local, p50',
    measured: `${round(mcpExec.ours)} ms = + ${round(more)} ms`,
    comparison: `SDK exec ${round(mcpExec.theirs)} ms`,
    must: '≤ + 3 ms',
    stretch: '',
    passed: more <= 3,
    figures: { ...mcpExec },
  }
  await session.release()
}

const timesRow = (row: string, most: number, { ours, theirs, ratio }: Comparison): Row => ({
  row,
  measured: `${round(ours)} ms = ${round(ratio)} ×`,
  comparison: `SDK exec ${round(theirs)} ms`,
  must: `≤ ${most} ×`,
  stretch: '',
  passed: ratio <= most,
  figures: { ours, theirs, ratio },
})

const expectZero = (code: number | null | undefined): void => {
  if (code !== 0) throw new Error(`true ended with ${code}`)
}

const sdkExec = async (session: Session): Promise<void> => expectZero((await session.exec('true')).exitCode)

const deepagents = async ({ brokerUrl: url, apiKey }: StackAddress): Promise<Timed> => {
  const sandbox = await BoxofficeSandbox.create({ url, auth: { apiKey }, threadId: 'bench-clients' })
  return {
    run: (count) => timeEach(count, async () => expectZero((await sandbox.execute('true')).exitCode)),
    close: async () => undefined,
  }
}

const e2b = async ({ brokerUrl, apiKey }: StackAddress): Promise<Timed> => {
  const url = `${brokerUrl}/compat/e2b`
  const sandbox = await Sandbox.create({ apiUrl: url, sandboxUrl: url, apiKey, validateApiKey: false, timeoutMs: 3_600_000 })
  return {
    run: (count) => timeEach(count, async () => expectZero((await sandbox.commands.run('true')).exitCode)),
    close: async () => void (await sandbox.kill()),
  }
}

const mcp = async ({ brokerUrl, apiKey }: StackAddress): Promise<Timed> => {
  const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
  const headers = { authorization: `Bearer ${apiKey}`, 'x-boxoffice-thread': 'bench-clients' }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${brokerUrl}/mcp`), { requestInit: { headers } }))
  const exec = async (): Promise<void> => {
    const { structuredContent } = await client.callTool({ name: 'exec', arguments: { command: 'true' } })
    expectZero((structuredContent as { exit_code?: number }).exit_code)
  }
  return { run: (count) => timeEach(count, exec), close: () => client.close() }
}

/** A process of its own, as the client's users have it. */
const python = async ({ brokerUrl, apiKey }: StackAddress): Promise<Timed> => {
  const child = spawn(PYTHON, [fileURLToPath(new URL('./clients.py', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, BOXOFFICE_URL: brokerUrl, BOXOFFICE_API_KEY: apiKey, BENCH_THREAD: 'bench-clients', PYTHONPATH: PYTHON_SOURCES },
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async run(count) {
      child.stdin.write(`${count}\n`)
      const { value, done } = await lines.next()
      if (done) throw new Error('the Python program ended')
      return JSON.parse(value) as number[]
    },
    async close() {
      const closed = once(child, 'close')
      child.stdin.end()
      await closed
    },
  }
}
