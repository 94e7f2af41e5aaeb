import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../e2e/support/program.ts'
import { API_KEY, type Stack } from '../../e2e/support/stack.ts'
import { startControl } from './control.ts'

export const PYTHON = `${ROOT}.tools/python/bin/python`

/** A program that hangs is ended before vitest gives its test up, so that nothing stays. */
const HANGS_MS = 390_000

export type Finished = { code: number; output: string }

/** Runs a program to its end; stdout and stderr in one text. */
export const runToEnd = (
  program: string,
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<Finished> =>
  new Promise((resolve) => {
    const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...options.env }
    const child = execFile(
      program,
      args,
      { ...options, env, maxBuffer: 64 * 1024 * 1024, timeout: HANGS_MS, killSignal: 'SIGKILL' },
      (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : (child.exitCode ?? 1), output: stdout + stderr })
      },
    )
  })

/**
 * Runs one file of pytest against a stack, and throws what failed, case by case. `least` is how many cases pass at least: a file that
 * collects nothing must not look green.
 */
export const pytest = async (
  stack: Stack,
  file: string,
  { least, env = {} }: { least: number; env?: Record<string, string> },
): Promise<void> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-pytest-'))
  await using control = await startControl(stack)
  try {
    const report = join(directory, 'report.xml')
    const { code, output } = await runToEnd(
      PYTHON,
      [
        '-m',
        'pytest',
        '-q',
        '--tb=short',
        '-p',
        'no:cacheprovider',
        '-p',
        'no:benchmark',
        '-p',
        'no:codspeed',
        '-o',
        'faulthandler_timeout=150',
        `--junitxml=${report}`,
        join(ROOT, file),
      ],
      {
        cwd: join(ROOT, file, '..', '..'),
        env: {
          ...{ BOXOFFICE_URL: stack.brokerUrl, BOXOFFICE_API_KEY: API_KEY, BOXOFFICE_TEST_CONTROL: control.url },
          ...env,
        },
      },
    )
    const xml = await readFile(report, 'utf8').catch(() => '')
    const count = (name: string): number => Number(new RegExp(`<testsuite [^>]*\\b${name}="(\\d+)"`).exec(xml)?.[1] ?? Number.NaN)
    const passed = count('tests') - count('failures') - count('errors') - count('skipped')
    if (code !== 0 || !(passed >= least))
      throw new Error(`pytest ended with ${code}, ${passed} cases passed of at least ${least}:\n${output.slice(-8_000)}`)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
