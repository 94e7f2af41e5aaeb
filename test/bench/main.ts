import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import Docker from 'dockerode'
import { POOL_SIZE, poolFull } from './pool.ts'
import type { Row, RowContext } from './rows/row.ts'
import { startStack } from './stack.ts'

const ROWS = [
  ...['exec-latency', 'exec-throughput', 'ensure-new', 'ensure-local', 'ensure-live', 'stdout', 'files', 'memory'],
  ...['relay', 'wake', 'terminal', 'idle-sockets', 'many-rows', 'idle-local', 'idle-docker'],
]
const IMAGE = process.env.BOXOFFICE_IMAGE ?? 'boxoffice/sandbox:latest'

const { values } = parseArgs({ options: { rows: { type: 'string' }, out: { type: 'string' } } })
const chosen = values.rows === undefined ? ROWS : values.rows.split(',')
const scratch = mkdtempSync(join(tmpdir(), 'bxo-bench-'))

const SLEEPY = { name: 'sleepy', idle_timeout_seconds: 1, memory_mb: 512 }
const ALL = [
  SLEEPY,
  { name: 'pooled', pool_size: POOL_SIZE, memory_mb: 500 },
  { name: 'bulk', memory_mb: 4096, max_upload_bytes: 2 * 1024 ** 3 },
]

const runRow = async (name: string, context: RowContext): Promise<Row[]> => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('./row.ts', import.meta.url)), name, JSON.stringify(context)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  const [code] = (await once(child, 'close')) as [number]
  if (code !== 0) throw new Error(`row ${name} ended with ${code}`)
  return JSON.parse(text) as Row[]
}

const printTable = (rows: Row[]): void => {
  const cells = [
    ['row', 'measured', 'compared with', 'must', 'stretch', ''],
    ...rows.map((row) => [row.row, row.measured, row.comparison, row.must, row.stretch, row.passed ? 'ok' : 'SHORT']),
  ]
  for (const line of cells)
    process.stdout.write(`| ${line.join(' | ')} |\n${line === cells[0] ? `|${' --- |'.repeat(line.length)}\n` : ''}`)
}

const measure = async (): Promise<Row[]> => {
  await using teardown = new AsyncDisposableStack()
  teardown.defer(() => rmSync(scratch, { recursive: true, force: true }))
  const docker = await startStack({ name: 'docker', provider: 'docker', scratch, profiles: ALL })
  teardown.defer(docker.stop)
  const local = await startStack({ name: 'local', provider: 'local', scratch, profiles: [SLEEPY] })
  teardown.defer(local.stop)
  await poolFull(new Docker())
  const rows: Row[] = []
  for (const name of chosen) {
    process.stderr.write(`measuring ${name} …\n`)
    rows.push(...(await runRow(name, { docker: docker.address, local: local.address, image: IMAGE, scratch })))
  }
  return rows
}

const rows = await measure()
printTable(rows)
const out = values.out ?? fileURLToPath(new URL(`./results/${new Date().toISOString().replaceAll(':', '-')}.json`, import.meta.url))
mkdirSync(join(out, '..'), { recursive: true })
writeFileSync(
  out,
  `${JSON.stringify({ at: new Date().toISOString(), node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, rows }, null, 2)}\n`,
)
process.stdout.write(`\nwritten to ${out}\n`)
