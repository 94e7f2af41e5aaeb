import { execFileSync } from 'node:child_process'
import { brokerClient } from '../http.ts'
import { median, timeEach } from '../statistics.ts'
import { type Needs, type Row, type RowContext, round } from './row.ts'

export const needs: Needs = { local: [] }

/** `ensure` of a live session: latency of one client, and requests per second of a broker that is pinned to one core. */
export const run = async ({ local }: RowContext): Promise<Row[]> => {
  const broker = brokerClient(local.brokerUrl, local.apiKey)
  const grant = await broker.ensure('bench-live')
  execFileSync('taskset', ['-a', '-p', '-c', '0', String(local.brokerPid)], { stdio: 'ignore' })
  execFileSync('taskset', ['-a', '-p', '-c', '1', String(process.pid)], { stdio: 'ignore' })
  const latencies: number[] = []
  const rates: number[] = []
  await timeEach(2000, () => broker.ensure('bench-live'))
  for (let block = 0; block < 5; block++) {
    latencies.push(median(await timeEach(1000, () => broker.ensure('bench-live'))))
    const start = performance.now()
    let done = 0
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while (performance.now() - start < 3000) {
          await broker.ensure('bench-live')
          done++
        }
      }),
    )
    rates.push((done / (performance.now() - start)) * 1000)
  }
  execFileSync('taskset', ['-a', '-p', '-c', '0,1', String(local.brokerPid)], { stdio: 'ignore' })
  await broker.release(grant.session_id)
  const [p50, rate] = [median(latencies), median(rates)]
  return [
    {
      row: 'ensure of a live session, p50',
      measured: `${round(p50)} ms`,
      comparison: '',
      must: '≤ 1.5 ms',
      stretch: '',
      passed: p50 <= 1.5,
      figures: { p50 },
    },
    {
      row: 'ensure of a live session, per second on one core',
      measured: `${round(rate, 0)}/s`,
      comparison: '',
      must: '≥ 2,500/s',
      stretch: '5,000/s',
      passed: rate >= 2500,
      figures: { rate },
    },
  ]
}
