import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import Docker from 'dockerode'
import { isClusterCached } from './cluster.ts'
import type { RowModule, RowResult } from './rows/row.ts'
import { tableOf } from './table.ts'

const ROWS = [
  ...[
    'posix-spawn',
    'exec-latency',
    'exec-throughput',
    'ensure-new',
    'ensure-local',
    'ensure-live',
    'ensure-postgres',
    'stdout',
    'files',
    'memory',
  ],
  ...['relay', 'wake', 'terminal', 'idle-sockets', 'many-rows', 'idle-local', 'idle-docker', 'neighbours', 'density', 'fast-io', 'clients'],
  ...['egress', 'previews', 'kubernetes'],
]
const IMAGE = process.env.BOXOFFICE_IMAGE ?? 'boxoffice/sandbox:latest'
/** A guard against a row that hangs, no expectation. */
const ROW_MS = 60 * 60 * 1000

const { values } = parseArgs({ options: { rows: { type: 'string' }, out: { type: 'string' } } })
const chosen = values.rows?.split(',') ?? ROWS
const unknown = chosen.find((name) => !ROWS.includes(name))
if (unknown !== undefined) {
  process.stderr.write(`bench: there is no row ${JSON.stringify(unknown)}; there are: ${ROWS.join(', ')}\n`)
  process.exit(2)
}

let interrupted = false
process.on('SIGINT', () => {
  interrupted = true // a terminal interrupts the row and its stacks as well; what was measured is printed
})

const runRow = async (name: string): Promise<RowResult> => {
  const scratch = mkdtempSync(join(tmpdir(), 'bxo-bench-'))
  const out = join(scratch, 'result.json')
  try {
    const child = spawn(process.execPath, [fileURLToPath(new URL('./row.ts', import.meta.url)), name, IMAGE, scratch, out], {
      stdio: ['ignore', 'inherit', 'inherit'],
      timeout: ROW_MS,
    })
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    if (!existsSync(out)) return { rows: [], error: `its process ended with ${signal ?? code}` }
    return JSON.parse(readFileSync(out, 'utf8')) as RowResult
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

const hasEngine = (): Promise<boolean> =>
  new Docker().ping().then(
    () => true,
    () => false,
  )

const results: (RowResult & { name: string })[] = []
const withoutEngine: string[] = []
const withoutCluster: string[] = []
const engine = await hasEngine()
for (const name of chosen) {
  if (interrupted) break
  const { needs } = (await import(`./rows/${name}.ts`)) as RowModule
  if (!engine && (needs.docker !== undefined || needs.engine)) {
    withoutEngine.push(name)
    continue
  }
  // Asked for by name, it is built.
  if (needs.cluster && values.rows === undefined && !(await isClusterCached())) {
    withoutCluster.push(name)
    continue
  }
  process.stderr.write(`measuring ${name} …\n`)
  results.push({ name, ...(await runRow(name)) })
}

process.stdout.write(tableOf(results))
if (withoutEngine.length > 0) process.stdout.write(`\nNo container engine answers; not measured: ${withoutEngine.join(', ')}\n`)
if (withoutCluster.length > 0)
  process.stdout.write(`\nNo program of the cluster is cached (npm run cluster -- build); not measured: ${withoutCluster.join(', ')}\n`)
const at = new Date().toISOString()
const out = values.out ?? fileURLToPath(new URL(`./results/${at.replaceAll(':', '-')}.json`, import.meta.url))
mkdirSync(join(out, '..'), { recursive: true })
writeFileSync(
  out,
  `${JSON.stringify({ at, node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, results, withoutEngine, withoutCluster }, null, 2)}\n`,
)
process.stdout.write(`\nwritten to ${out}\n`)
process.exitCode = interrupted || results.some(({ error }) => error !== undefined) ? 1 : 0
