import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { connect } from '@boxoffice/client'
import { boxoffice } from '@boxoffice/client/computesdk'
import { compute } from 'computesdk'
import { Sandbox } from 'e2b'
import { beforeAll, expect, test } from 'vitest'
import { request } from '../../e2e/support/api.ts'
import { BOXOFFICE, ROOT } from '../../e2e/support/program.ts'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'
import { connectMcp, createKey } from '../support/mcp-connection.ts'
import { PYTHON, runToEnd } from '../support/pytest.ts'

const THREAD = 'together'
const NAMES = ['cli', 'computesdk', 'e2b', 'mcp', 'python', 'sdk'] as const
type Name = (typeof NAMES)[number]

/** Writes a file of its own, whole or not at all, and waits for those of all others: it ends only if all run at once, in one sandbox. */
const meet = (name: Name): string =>
  `echo ${name} > ${name}.part; mv ${name}.part met-${name}; until [ "$(ls met-* | wc -l)" -eq ${NAMES.length} ]; do sleep 0.05; done; cat met-* | tr '\\n' ' '`
const MET = NAMES.map((name) => `${name} `).join('')

const PROGRAM = `
import sys
from boxoffice import Client
url, key, thread, command = sys.argv[1:]
with Client(url, api_key=key) as client:
    print(client.session(thread).exec(command, timeout=150).stdout)
`

/** How long the first to come waits for the last: some start a program of their own. */
const WITHIN_S = 150

/** One sandbox, used at once by clients that have nothing in common but the broker. */
export const togetherSuite = (stack: () => Stack): void => {
  let keys: Record<Name, string>
  beforeAll(async () => {
    const made = await Promise.all(NAMES.map(async (name) => [name, await createKey(stack().brokerUrl, name)] as const))
    keys = Object.fromEntries(made) as Record<Name, string>
  })

  test('[C-03] six clients, each with a key of its own, use one sandbox at once, and the audit log names each', async () => {
    const { brokerUrl } = stack()
    const session = await connect(brokerUrl, { apiKey: keys.sdk }).session(THREAD, { members: NAMES })

    const inCommandLine = async (): Promise<string> => {
      const env = { ...process.env, BOXOFFICE_URL: brokerUrl, BOXOFFICE_API_KEY: keys.cli }
      const shell = spawn(BOXOFFICE, ['shell', '--thread', THREAD], { env, stdio: ['pipe', 'pipe', 'inherit'] })
      const ended = once(shell, 'exit')
      const shown = text(shell.stdout)
      shell.stdin.write(`${meet('cli')}; exit\n`)
      await ended
      return await shown
    }
    const inPython = async (): Promise<string> => {
      const env = { PYTHONPATH: `${ROOT}packages/client-python/src` }
      const { code, output } = await runToEnd(PYTHON, ['-c', PROGRAM, brokerUrl, keys.python, THREAD, meet('python')], { env })
      expect(code, output).toBe(0)
      return output
    }
    const inE2b = async (): Promise<string> => {
      const url = `${brokerUrl}/compat/e2b`
      const options = { apiUrl: url, sandboxUrl: url, apiKey: keys.e2b, validateApiKey: false, metadata: { thread_id: THREAD } }
      return (await (await Sandbox.create(options)).commands.run(meet('e2b'), { timeoutMs: WITHIN_S * 1000 })).stdout
    }
    const inMcp = async (): Promise<string> => {
      const host = await connectMcp({ transport: 'http', era: 'modern', brokerUrl, thread: THREAD, key: keys.mcp })
      try {
        return (await host.call<{ stdout: string }>('exec', { command: meet('mcp'), timeout_sec: WITHIN_S })).stdout
      } finally {
        await host.close()
      }
    }
    const inComputeSdk = async (): Promise<string | undefined> => {
      const sandbox = await compute({ provider: boxoffice({ url: brokerUrl, apiKey: keys.computesdk }) }).sandbox.getById(THREAD)
      return (await sandbox?.runCommand(meet('computesdk'), { timeout: WITHIN_S * 1000 }))?.stdout
    }
    const inSdk = async (): Promise<string> => (await session.exec(meet('sdk'), { timeoutSeconds: WITHIN_S })).stdout

    const [cli, ...others] = await Promise.all([inCommandLine(), inComputeSdk(), inE2b(), inMcp(), inPython(), inSdk()])
    expect(cli).toContain(MET)
    expect(others.map((shown) => shown?.trim())).toEqual(others.map(() => MET.trim()))
    expect(await session.files.text('met-e2b')).toBe('e2b\n')

    const authorization = `Bearer ${API_KEY}`
    const { body } = await request(`${brokerUrl}/v1/audit?thread_id=${THREAD}&event=sandbox.session.acquire`, {
      headers: { authorization },
    })
    const { entries } = body as { entries: { actor: string; session_id: string; outcome: string }[] }
    const granted = entries.filter(({ outcome }) => outcome === 'ok')
    expect(new Set(granted.map(({ actor }) => actor))).toEqual(new Set(NAMES))
    expect(new Set(granted.map(({ session_id }) => session_id))).toEqual(new Set([session.id]))
  }, 400_000)
}
