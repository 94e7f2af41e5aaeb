import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ReadyLine, ROOT } from './e2e/support/program.ts'

const readme = readFileSync(join(ROOT, 'README.md'), 'utf8')
const blocks = (language: string): string[] =>
  [...readme.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].filter(([, found]) => found === language).map(([, , body]) => body ?? '')

const [start, ...others] = blocks('sh')
const lines = others.flatMap((block) => block.split('\n')).filter((line) => line !== '')
const exported = lines.filter((line) => line.startsWith('export '))
const commands = lines.filter((line) => !line.startsWith('export '))

/** The environment of somebody who has set nothing yet. */
const unconfigured = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('BOXOFFICE_')))

describe('README', () => {
  let directory: string
  let program: ChildProcess
  let ready: ReadyLine

  /** Here the port is a free one. */
  const filledIn = (text: string): string => text.replaceAll('http://127.0.0.1:7070', ready.broker_url)

  const run = async (file: string, args: string[], input = ''): Promise<string> => {
    const env = { ...unconfigured, BOXOFFICE_URL: ready.broker_url, BOXOFFICE_API_KEY: ready.api_key }
    const running = promisify(execFile)(file, args, { cwd: directory, env, timeout: 110_000 })
    running.child.stdin?.end(input)
    return (await running).stdout
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'bxo-readme-'))
    // The reader stands in the checkout; what the commands write should not end up there.
    await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    const args = [
      '--',
      '--json',
      '--port',
      '0',
      '--agent-port',
      '0',
      '--provider',
      'local',
      '--destroy-on-exit',
      '--data-dir',
      join(directory, 'state'),
    ]
    const [command = '', ...rest] = (start ?? '').trim().split(' ')
    program = spawn(command, [...rest, ...args], { cwd: ROOT, env: unconfigured, stdio: ['ignore', 'pipe', 'inherit'] })
    if (program.stdout === null) throw new Error('no stdout')
    for await (const line of createInterface({ input: program.stdout })) {
      if (!line.startsWith('{')) continue // npm says what it runs
      ready = JSON.parse(line)
      break
    }
    if (ready === undefined) throw new Error(`${start?.trim()} ended without being ready; its messages are above`)
  }, 120_000)

  afterAll(async () => {
    if (ready !== undefined) {
      const ended = once(program, 'exit')
      process.kill(ready.pid, 'SIGTERM')
      await ended
    }
    await rm(directory, { recursive: true, force: true })
  })

  test('npm start gives the ready line', () => {
    expect(ready).toMatchObject({
      event: 'ready',
      provider: 'local',
      broker_url: expect.stringMatching(/^http:/),
      api_key: expect.stringMatching(/^bxo_/),
    })
  })

  test.for(commands)('%s', async (command) => {
    const line = filledIn([...exported, command].join('\n'))
    // `script` gives the terminal that an interactive command asks for.
    if (command.startsWith('boxoffice shell')) await run('script', ['-qec', line, '/dev/null'], 'echo in the shell; exit\n')
    else await run('sh', ['-euc', line])
  })

  test.for(blocks('js').map((code, index) => [index, code] as const))('program %i', async ([index, code]) => {
    const file = join(directory, `program-${index}.mjs`)
    await writeFile(file, filledIn(code))
    const output = await run(join(ROOT, '.tools/node'), ['--disable-warning=ExperimentalWarning', file])
    expect(output).toBe("0 [ '1', '2', '3', '' ]\n1\n2\n3\n1\n2\n3\n\n")
  })

  test('is at most 100 lines', () => {
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(100)
  })

  test('names only scripts and paths that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
    const named = [...readme.matchAll(/`npm (?:run )?(\w+)/g)].map(([, name]) => name ?? '')
    expect(named.filter((name) => !(name in scripts))).toEqual([])
    const paths = [...readme.matchAll(/[`(]((?:apps|packages|deploy|test)(?:\/[\w.-]+)*)[`)]/g)].map(([, path]) => path ?? '')
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  })
})
