import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BOXOFFICE, ROOT } from '../e2e/support/program.ts'
import { API_KEY, type Stack, startStack } from '../e2e/support/stack.ts'

const INSPECTOR = `${ROOT}node_modules/.bin/mcp-inspector`

/** Our Node first: that of the machine may be too old for the inspector. */
const PATH = `${ROOT}.tools/bin:${process.env.PATH}`

let stack: Stack
/** The inspector writes what it knows of servers to the home directory. */
let home: string
beforeAll(async () => {
  stack = await startStack({ provider: 'local' })
  home = await mkdtemp(join(tmpdir(), 'bxo-inspector-'))
})
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

const inspect = async (args: string[]): Promise<Record<string, unknown>> => {
  const child = spawn(INSPECTOR, ['--cli', ...args], { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH, HOME: home } })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  await once(child, 'close')
  expect(child.exitCode, stderr + stdout).toBe(0)
  return JSON.parse(stdout)
}

describe.each(['http', 'stdio'] as const)('the inspector, over %s', (transport) => {
  const target = (): string[] =>
    transport === 'http'
      ? [`${stack.brokerUrl}/mcp?thread=inspected`, '--transport', 'http', '--header', `Authorization: Bearer ${API_KEY}`]
      : ['-e', `BOXOFFICE_URL=${stack.brokerUrl}`, '-e', `BOXOFFICE_API_KEY=${API_KEY}`, '--', BOXOFFICE, 'mcp', '--thread', 'inspected']
  const ask = (...args: string[]) => inspect(transport === 'http' ? [...target(), ...args] : [...args, ...target()])

  test('lists the tools, and finds nothing wrong with their schemas', async () => {
    const { tools } = await ask('--method', 'tools/list', '--strict')
    expect((tools as { name: string }[]).map(({ name }) => name)).toContain('exec')
  })

  test('runs a command, and reads a file', async () => {
    const ran = await ask('--method', 'tools/call', '--tool-name', 'exec', '--tool-arg', `command=echo ${transport} > inspected`)
    expect(ran).toMatchObject({ structuredContent: { ok: true, exit_code: 0 } })
    const read = await ask('--method', 'tools/call', '--tool-name', 'read_file', '--tool-arg', 'path=inspected')
    expect(read).toMatchObject({ structuredContent: { content: `${transport}\n` } })
  })
})
