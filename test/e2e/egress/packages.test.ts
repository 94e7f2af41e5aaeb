import { connect, type Session } from '@boxoffice/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { mirrorVariables, type PackageMirror, startPackageMirror } from '../support/package-mirror.ts'
import { API_KEY, type Stack, startStack } from '../support/stack.ts'

const MINUTES = 5 * 60_000

let mirror: PackageMirror
let stack: Stack
let session: Session
beforeAll(async () => {
  mirror = await startPackageMirror()
  stack = await startStack({ provider: 'local', agentVariables: mirrorVariables(mirror) })
  session = await connect(stack.brokerUrl, { apiKey: API_KEY }).session('packages', { profile: 'network_basic' })
})
afterAll(async () => {
  await session?.release()
  await stack?.[Symbol.asyncDispose]()
  await mirror?.[Symbol.asyncDispose]()
})

const run = async (command: string): Promise<string> => {
  const { exitCode, stdout, stderr } = await session.exec(command, { timeoutSeconds: MINUTES / 1000 })
  expect({ exitCode, stderr: exitCode === 0 ? '' : stderr, stdout: exitCode === 0 ? '' : stdout }).toEqual({
    exitCode: 0,
    stderr: '',
    stdout: '',
  })
  return stdout
}

test(
  'pip install works out of the box where the profile has a network, by the mirror of the host',
  async () => {
    await run('python3 -m pip install --no-color --progress-bar off pandas==3.1.1')
    expect(await run('python3 -c "import pandas; print(pandas.DataFrame({1: [2]}).sum().item())"')).toBe('2\n')
    expect(mirror.asked.some((url) => url.startsWith('/pypi/pandas/'))).toBe(true)
  },
  MINUTES,
)

test(
  'and so does npm install, with programs on the path',
  async () => {
    await run('npm install --global --no-fund --no-audit vite@6.4.1')
    expect(await run('vite --version')).toMatch(/^vite\/6\./)
    expect(mirror.asked).toContain('/npm/vite')
  },
  MINUTES,
)

test(
  'uv installs by the mirror, too, and requests and httpx read through the proxy',
  async () => {
    await run('python3 -m pip install --no-color --progress-bar off uv==0.9.9')
    await run('uv pip install --quiet --target libraries requests httpx')
    const script = (library: string) => `import ${library}; print(${library}.get('${mirror.origin}/pypi/six/').status_code)`
    for (const library of ['requests', 'httpx'])
      expect(await run(`PYTHONPATH=libraries python3 -c "${script(library)}"`), library).toBe('200\n')
  },
  MINUTES,
)

test('what was installed is not in listings, and is in the workspace', async () => {
  expect((await session.files.list('')).filter(({ path }) => !path.startsWith('libraries/'))).toEqual([])
  expect(await run('ls ~/.npm-global/bin')).toContain('vite\n')
})

test('nothing else of the host is reached than the mirror', async () => {
  const { stdout } = await session.exec(`curl -sS http://${mirror.host}:9/`)
  expect(JSON.parse(stdout)).toMatchObject({ code: expect.stringMatching(/port_refused|not_allowed/) })
})
