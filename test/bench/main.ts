import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import Docker from 'dockerode'
import { type Program, startProgram } from '../e2e/support/program.ts'
import { POOL_SIZE, poolFull } from './pool.ts'
import type { Row, RowContext, StackAddress } from './rows/row.ts'

const ROWS = [
  ...['exec-latency', 'exec-throughput', 'ensure-new', 'ensure-local', 'ensure-live', 'stdout', 'files', 'memory'],
  ...['relay', 'wake', 'terminal', 'idle-sockets', 'many-rows'],
]
const IMAGE = process.env.BOXOFFICE_IMAGE ?? 'boxoffice/sandbox:latest'
const UNLIMITED = { per_second: 100_000, burst: 100_000 }

const { values } = parseArgs({ options: { rows: { type: 'string' }, out: { type: 'string' } } })
const chosen = values.rows === undefined ? ROWS : values.rows.split(',')
const scratch = mkdtempSync(join(tmpdir(), 'bxo-bench-'))

/** Broker and agent as two processes, as in production; `up` would let one event loop carry both. */
const startStack = async (name: string, provider: string): Promise<{ address: StackAddress; stop(): Promise<void> }> => {
  const config = join(scratch, `${name}.json`)
  const sleepy = { name: 'sleepy', idle_timeout_seconds: 1, memory_mb: 512 }
  const profiles = [
    sleepy,
    { name: 'pooled', pool_size: POOL_SIZE, memory_mb: 500 },
    { name: 'bulk', memory_mb: 4096, max_upload_bytes: 2 * 1024 ** 3 },
  ]
  writeFileSync(
    config,
    JSON.stringify({
      profiles: provider === 'docker' ? profiles : [sleepy],
      rate_limits: { create_per_principal: UNLIMITED, create_per_tenant: UNLIMITED },
      max_sessions: 100_000,
    }),
  )
  const enroll = 'bench-enroll-token-0123456789abcdefghij'
  const key = `bench-api-key-${name}-0123456789abcdefghijklmnop`
  const broker: Program = await startProgram([
    'broker',
    '--port',
    '0',
    '--data-dir',
    join(scratch, `${name}-broker`),
    '--enroll-token',
    enroll,
    '--api-key',
    key,
    '--config',
    config,
  ])
  const agent = await startProgram([
    'agent',
    '--broker-url',
    broker.ready.broker_url,
    '--enroll-token',
    enroll,
    '--port',
    '0',
    '--data-dir',
    join(scratch, `${name}-agent`),
    '--provider',
    provider,
    '--destroy-on-exit',
  ])
  return {
    address: {
      brokerUrl: broker.ready.broker_url,
      apiKey: key,
      brokerPid: broker.ready.pid,
      agentPid: agent.ready.pid,
      dataDir: join(scratch, `${name}-agent`),
    },
    stop: async () => {
      await agent.stop()
      await broker.stop()
    },
  }
}

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

const docker = await startStack('docker', 'docker')
const local = await startStack('local', 'local')
await poolFull(new Docker())
const rows: Row[] = []
try {
  for (const name of chosen) {
    process.stderr.write(`measuring ${name} …\n`)
    rows.push(...(await runRow(name, { docker: docker.address, local: local.address, image: IMAGE, scratch })))
  }
} finally {
  await local.stop()
  await docker.stop()
  rmSync(scratch, { recursive: true, force: true })
}
printTable(rows)
const out = values.out ?? fileURLToPath(new URL(`./results/${new Date().toISOString().replaceAll(':', '-')}.json`, import.meta.url))
mkdirSync(join(out, '..'), { recursive: true })
writeFileSync(
  out,
  `${JSON.stringify({ at: new Date().toISOString(), node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, rows }, null, 2)}\n`,
)
process.stdout.write(`\nwritten to ${out}\n`)
