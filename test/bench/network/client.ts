import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import { connect, type Socket } from 'node:net'
import { median, p99, timeEach } from '../statistics.ts'

// A program that uses the network, the same in a sandbox and outside: it goes through a proxy where its environment names one. Its argument
// is a `Task` as JSON; it prints `Figures` as JSON.

/** Where a server listens. */
export type Place = { host: string; port: number }

export type Task =
  /** `count` requests on kept connections, `atOnce` at a time, after `warmUp` others. */
  | { kind: 'requests'; url: string; headers?: Record<string, string>; count: number; warmUp: number; atOnce: number }
  /** One request without TLS on each of `count` connections, one after another, after `warmUp` others. */
  | { kind: 'connections'; to: Place; count: number; warmUp: number }
  /** So many bytes over one connection without TLS. */
  | { kind: 'download'; to: Place; headers?: Record<string, string>; bytes: number }

/** Milliseconds, and how many a second; `rate` of a download: MiB a second. */
export type Figures = { p50: number; p99: number; rate: number; errors: number }

const PROXY = process.env.HTTPS_PROXY

const requests = async ({ url, headers = {}, count, warmUp, atOnce }: Task & { kind: 'requests' }): Promise<Figures> => {
  const { request, Agent } = url.startsWith('https:') ? https : http
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce, proxyEnv: process.env })
  let errors = 0
  let example: unknown
  const one = (): Promise<void> =>
    new Promise<void>((resolve, reject) => {
      const sent = request(url, { agent, headers }, (response) => {
        response.resume()
        response.once('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))))
        response.once('error', reject)
      })
      sent.once('error', reject)
      sent.end()
    }).catch((error: unknown) => {
      errors++
      example ??= error
    })
  const crowd = async (each: number): Promise<number[]> =>
    (await Promise.all(Array.from({ length: atOnce }, () => timeEach(Math.ceil(each / atOnce), one)))).flat()
  await crowd(warmUp)
  const start = performance.now()
  const times = await crowd(count)
  const seconds = (performance.now() - start) / 1000
  agent.destroy()
  if (example !== undefined) process.stderr.write(`${errors} errors, the first: ${example}\n`)
  return { p50: median(times), p99: p99(times), rate: times.length / seconds, errors }
}

/** A connection to a server, through the tunnel of the proxy where there is one. */
const open = async ({ host, port }: Place): Promise<Socket> => {
  if (PROXY === undefined) {
    const socket = connect({ host, port, noDelay: true })
    await once(socket, 'connect')
    return socket
  }
  const asked = http.request(PROXY, { method: 'CONNECT', path: `${host}:${port}`, agent: false }).end()
  const [response, socket] = (await once(asked, 'connect')) as [http.IncomingMessage, Socket]
  if (response.statusCode !== 200) throw new Error(`CONNECT: ${response.statusCode}`)
  return socket
}

/** Bytes of the response to a GET, head included, until the server ends. */
const get = async (socket: Socket, path: string, headers: Record<string, string> = { host: 'bench' }): Promise<number> => {
  let received = 0
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  const fields = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`GET ${path} HTTP/1.1\r\n${fields.join('')}\r\n`)
  await once(socket, 'end')
  socket.end()
  return received
}

const connections = async ({ to, count, warmUp }: Task & { kind: 'connections' }): Promise<Figures> => {
  const one = async (): Promise<void> => {
    if ((await get(await open(to), '/')) === 0) throw new Error('an empty response')
  }
  await timeEach(warmUp, one)
  const start = performance.now()
  const times = await timeEach(count, one)
  return { p50: median(times), p99: p99(times), rate: count / ((performance.now() - start) / 1000), errors: 0 }
}

const download = async ({ to, bytes, headers }: Task & { kind: 'download' }): Promise<Figures> => {
  const socket = await open(to)
  const start = performance.now()
  const received = await get(socket, `/bytes/${bytes}`, headers)
  const ms = performance.now() - start
  if (received < bytes) throw new Error(`received ${received} bytes`)
  return { p50: ms, p99: ms, rate: bytes / 1024 ** 2 / (ms / 1000), errors: 0 }
}

const perform = (task: Task): Promise<Figures> =>
  task.kind === 'requests' ? requests(task) : task.kind === 'connections' ? connections(task) : download(task)

process.stdout.write(JSON.stringify(await perform(JSON.parse(process.argv[2] ?? '{}') as Task)))
