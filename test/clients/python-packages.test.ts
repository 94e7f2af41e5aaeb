import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from '../e2e/support/program.ts'
import { API_KEY, type Stack, startStack } from '../e2e/support/stack.ts'
import { programsOf } from './support/page-programs.ts'
import { PYTHON, runToEnd } from './support/pytest.ts'
import { installWheels, PYTHON_PACKAGES, type Wheels } from './support/wheels.ts'

let stack: Stack
let wheels: Wheels
beforeAll(async () => {
  ;[stack, wheels] = await Promise.all([startStack({ provider: 'local' }), installWheels()])
})
afterAll(async () => {
  await wheels?.[Symbol.asyncDispose]()
  await stack?.[Symbol.asyncDispose]()
})

const environment = () => ({ BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY })

test.for(PYTHON_PACKAGES)('ruff and mypy find nothing in %s', async (folder) => {
  const cwd = join(ROOT, folder)
  for (const tool of [
    ['ruff', 'check', '--no-cache'],
    ['ruff', 'format', '--no-cache', '--check'],
    ['mypy', '--no-error-summary', 'src', 'tests'],
  ]) {
    const { code, output } = await runToEnd(PYTHON, ['-m', ...tool], { cwd })
    expect(code === 0 ? '' : `${tool.join(' ')}: ${output}`).toBe('')
  }
})

test('the asynchronous client is what write_async.py makes of the blocking one', async () => {
  expect(await runToEnd(PYTHON, [join(ROOT, 'packages/client-python/write_async.py'), '--check'])).toEqual({ code: 0, output: '' })
})

test('the wheels are typed, and need no source', async () => {
  expect(wheels.names).toEqual([
    expect.stringMatching(/^boxoffice-[\d.]+-py3-none-any\.whl$/),
    expect.stringMatching(/^langchain_boxoffice-[\d.]+-py3-none-any\.whl$/),
  ])
  const program =
    'import boxoffice, langchain_boxoffice as l, os; print(*(os.path.exists(m.__path__[0] + "/py.typed") for m in (boxoffice, l)), boxoffice.__file__)'
  const { output } = await runToEnd(wheels.python, ['-c', program])
  expect(output).toMatch(/^True True /)
  expect(output).toContain(wheels.directory)
})

test.for(['python.md', 'langchain-python.md'])('the programs of %s run', async (page) => {
  const programs = programsOf(page, 'python')
  expect(programs.length).toBeGreaterThan(0)
  for (const [index, program] of programs.entries()) {
    const file = join(wheels.directory, `${page}-${index}.py`)
    await writeFile(file, program.replaceAll('http://127.0.0.1:7070', stack.brokerUrl))
    const { code, output } = await runToEnd(wheels.python, [file], { env: environment() })
    expect(output).toContain('42')
    expect(code).toBe(0)
  }
})

test('the LangGraph example runs on two threads, and the broker restarts in between', async () => {
  const file = join(ROOT, 'packages/langchain-boxoffice/examples/two_threads.py')
  const child = spawn(wheels.python, [file], {
    env: { ...process.env, ...environment(), PYTHONDONTWRITEBYTECODE: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const lines: string[] = []
  const closed = once(child, 'close')
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line)
    if (line.startsWith('restart')) {
      await stack.broker().kill('SIGKILL')
      await stack.startBroker()
      child.stdin.write('\n')
    }
  }
  const [code] = await closed
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' })
  const text = lines.join('\n')
  for (const thread of ['red', 'blue']) {
    expect(text).toContain(`${thread} 1`)
    expect(text).toMatch(new RegExp(`${thread}: ${thread} 3`))
  }
})
