/**
 * How fast a live session is ensured: one broker process (pinned by the caller, e.g. `taskset -c 0`), this process as its
 * client over keep-alive. Usage: node apps/broker/bench/ensure.ts <broker url> <api key> [seconds] [connections]
 * Prints one JSON line: requests per second with all connections, then p50 and p99 in milliseconds with one.
 */
import { Agent, request } from 'node:http'

const [brokerUrl = '', apiKey = '', seconds = '5', connections = '16'] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true, maxSockets: Number(connections) })
const { hostname, port } = new URL(brokerUrl)

const ensure = (thread: string): Promise<number> => {
  const body = JSON.stringify({ thread_id: thread, mode: 'ensure' })
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', 'content-length': body.length }
  return new Promise((resolve, reject) => {
    const call = request({ agent, hostname, port, path: '/v1/sandbox/sessions', method: 'POST', headers }, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0)).on('error', reject)
    })
    call.on('error', reject).end(body)
  })
}

const run = async (workers: number, forMs: number): Promise<number[]> => {
  const times: number[] = []
  const end = performance.now() + forMs
  await Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      while (performance.now() < end) {
        const started = performance.now()
        const status = await ensure(`bench-${worker % 4}`)
        if (status !== 200) throw new Error(`status ${status}`)
        times.push(performance.now() - started)
      }
    }),
  )
  return times.sort((a, b) => a - b)
}

await run(4, 1000)
const loaded = await run(Number(connections), Number(seconds) * 1000)
const alone = await run(1, Number(seconds) * 1000)
const at = (times: number[], share: number): number => Number((times[Math.floor(times.length * share)] ?? 0).toFixed(3))
process.stdout.write(
  `${JSON.stringify({ requests: loaded.length + alone.length, per_second: Math.round(loaded.length / Number(seconds)), p50_ms: at(alone, 0.5), p99_ms: at(alone, 0.99) })}\n`,
)
agent.destroy()
