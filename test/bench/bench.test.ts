import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const MAIN = fileURLToPath(new URL('main.ts', import.meta.url))
const NO_ENGINE = { DOCKER_HOST: 'unix:///nonexistent/docker.sock' }

type Ended = { code: number; stdout: string; table: string[][]; results: { name: string; error?: string }[] }

/** One `npm run bench` with few repetitions; its table by lines and cells. */
const bench = async (rows: string, env: Record<string, string>): Promise<Ended> => {
  const directory = mkdtempSync(join(tmpdir(), 'bxo-bench-test-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const out = join(directory, 'out.json')
  const { promise, resolve } = Promise.withResolvers<{ code: number; stdout: string }>()
  execFile(process.execPath, [MAIN, '--rows', rows, '--out', out], { env: { ...process.env, ...NO_ENGINE, ...env } }, (error, stdout) =>
    resolve({ code: error === null ? 0 : Number(error.code), stdout }),
  )
  const ended = await promise
  const table = ended.stdout
    .split('\n')
    .filter((line) => line.startsWith('| ') && !line.startsWith('| ---'))
    .map((line) => line.split(' | ').map((cell) => cell.replace(/^\| | \|$/g, '').trim()))
  return { ...ended, table, results: (JSON.parse(readFileSync(out, 'utf8')) as { results: Ended['results'] }).results }
}

test('a row that fails and rows without an engine leave the others their lines', async () => {
  const { code, stdout, table } = await bench('density,exec-latency,posix-spawn,terminal', { BENCH_DENSITY: 'many', BENCH_COUNT: '3' })
  expect(table[0]?.slice(0, 4)).toEqual(['row', 'measured', 'compared with', 'must'])
  const failed = table.find(([row]) => row === 'density')
  expect(failed).toContain('failed: BENCH_DENSITY: "many" is not a whole number above 0')
  expect(failed?.at(-1)).toMatch(/FAILED/)
  const floor = table.find(([row]) => row?.startsWith('`POST /exec` /bin/true, local'))
  expect(floor?.[1]).toMatch(/^[\d.]+ ms = [\d.]+ ×$/)
  expect(floor?.[2]).toMatch(/^posix_spawn \+ waitpid in C on the host [\d.]+ ms$/)
  expect(stdout).toContain('No container engine answers; not measured: exec-latency, terminal\n')
  expect(code).toBe(1)
}, 120_000)

test('the row of the floor says that there is no compiler, and is measured all the same', async () => {
  const { code, table } = await bench('posix-spawn', { CC: '/nonexistent/cc', BENCH_COUNT: '3' })
  expect(table.slice(1)).toEqual([
    expect.arrayContaining([expect.stringMatching(/^[\d.]+ ms$/), 'no C compiler (/nonexistent/cc): posix_spawn was not measured']),
  ])
  expect(code).toBe(0)
}, 120_000)

test('density measures creation, exec, memory and a restart of the agent', async () => {
  const { code, table, results } = await bench('density', { BENCH_DENSITY: '6' })
  expect(results).toEqual([expect.not.objectContaining({ error: expect.anything() })])
  expect(table.slice(1).map(([row]) => row)).toEqual([
    'density: 6 live local sandboxes, creation, 4 at once, p50',
    'density: 6 live local sandboxes, first `POST /exec` in a random idle one, p50',
    'density: 6 live local sandboxes, memory of each, all told',
    'density: 6 live local sandboxes, descriptors of the agent for each',
    'density: 6 live local sandboxes, agent killed and started again, all adopted',
  ])
  expect(code).toBe(0)
}, 120_000)
