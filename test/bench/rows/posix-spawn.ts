import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { countOf } from '../count.ts'
import { brokerClient, execOnce, httpClient } from '../http.ts'
import { inTurn, median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const execute = promisify(execFile)
/** The program on both sides; the local provider shows the host's `/usr`, so it is the same file. */
const PROGRAM = '/bin/true'
const MUST = 2
/** Times the count of a block. The agent's code is compiled by use, and that of an exec is not before the thousandth. */
const WARM_UP = 4

export const needs: Needs = { local: [] }

/** `POST /exec` against the least that a host can do: `posix_spawn` and `waitpid` of the same program, in C. */
export const run = async ({ local, scratch }: RowContext): Promise<Row[]> => {
  const count = countOf('BENCH_COUNT', 400)
  const broker = brokerClient(local.brokerUrl, local.apiKey)
  const client = httpClient()
  const grant = await broker.ensure('bench-posix-spawn')
  const body = JSON.stringify({ argv: [PROGRAM] })
  const execs = (times: number) => timeEach(times, () => execOnce(client, grant, body))
  const spawns = async (times: number) => Number((await execute(floor.path, [PROGRAM, String(times)])).stdout) / 1e6
  const floor = await compile(scratch)
  await execs(WARM_UP * count)
  const ours = async () => median(await execs(count))
  const theirs = () => spawns(count)
  const row = { row: `\`POST /exec\` ${PROGRAM}, local, p50`, must: `≤ ${MUST} ×`, stretch: '1.5 ×' }
  const rows: Row[] = []
  if ('missing' in floor) {
    const p50 = median([await ours(), await ours(), await ours()])
    rows.push({ ...row, measured: `${round(p50)} ms`, comparison: floor.missing, passed: undefined, figures: { ours: p50 } })
  } else {
    await spawns(WARM_UP * count)
    const result = await inTurn(ours, theirs)
    rows.push({
      ...row,
      measured: `${round(result.ours)} ms = ${round(result.ratio)} ×`,
      comparison: `posix_spawn + waitpid in C on the host ${round(result.theirs)} ms`,
      passed: result.ratio <= MUST,
      figures: { ...result },
    })
  }
  await broker.release(grant.session_id)
  broker.close()
  client.close()
  return rows
}

/** The C program, compiled; or what there was no compiler for. */
const compile = async (scratch: string): Promise<{ path: string } | { path: string; missing: string }> => {
  const path = join(scratch, 'posix-spawn')
  const compiler = process.env.CC ?? 'cc'
  try {
    await execute(compiler, ['-O2', '-o', path, fileURLToPath(new URL('posix-spawn.c', import.meta.url))])
    return { path }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return { path, missing: `no C compiler (${compiler}): posix_spawn was not measured` }
  }
}
