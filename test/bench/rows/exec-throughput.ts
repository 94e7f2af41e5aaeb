import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { brokerClient, execOnce, httpClient } from '../http.ts'
import { inTurn } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

const CLIENTS = 16
const BLOCK_MS = 4000

/** Runs `one` in 16 loops for a block; completed runs per second. */
const perSecond = async (one: () => Promise<void>): Promise<number> => {
  const start = performance.now()
  let done = 0
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (performance.now() - start < BLOCK_MS) {
        await one()
        done++
      }
    }),
  )
  return (done / (performance.now() - start)) * 1000
}

const spawnTrue = async (): Promise<void> => {
  const child = spawn('/bin/true', { stdio: ['ignore', 'pipe', 'pipe'] })
  await once(child, 'close')
}

export const needs: Needs = { docker: [] }

/** 16 clients that run `/bin/true` as fast as they can, against the same number of loops around `child_process.spawn`. */
export const run = async ({ docker }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(docker.brokerUrl, docker.apiKey)
  const grant = await broker.ensure('bench-exec-throughput')
  const client = httpClient(CLIENTS)
  await perSecond(() => execOnce(client, grant, '{"argv":["/bin/true"]}'))
  const result = await inTurn(
    () => perSecond(() => execOnce(client, grant, '{"argv":["/bin/true"]}')),
    () => perSecond(spawnTrue),
  )
  await broker.release(grant.session_id)
  return [
    {
      row: '16 clients, /bin/true per second, docker',
      measured: `${round(result.ours, 0)}/s = ${round(result.ratio)} ×`,
      comparison: `child_process.spawn ${round(result.theirs, 0)}/s`,
      must: '≥ 1.0 ×',
      stretch: '1.5 ×',
      passed: result.ratio >= 1,
      figures: { ...result },
    },
  ]
}
