import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'

// A server for the rows of the network: the origin of `egress`, the application of `previews`. Its argument is an `Origin` as JSON.

export type Origin = {
  host: string
  http: number
  /** PEM files, and the ports with TLS. */
  tls?: { cert: string; key: string; ports: number[] }
  /** Without this `Authorization` a request for `/ruled` is refused. */
  authorization?: string
}

const { host, http, tls, authorization } = JSON.parse(process.argv[2] ?? '{}') as Origin
const CHUNK = Buffer.alloc(64 * 1024, 1)

const answer: RequestListener = ({ url = '', headers }, response) => {
  if (url === '/ruled' && headers.authorization !== authorization) {
    response.writeHead(401).end()
    return
  }
  const bytes = /^\/bytes\/(\d+)$/.exec(url)?.[1]
  if (bytes === undefined) {
    response.end('ok')
    return
  }
  let left = Number(bytes)
  response.setHeader('content-length', left)
  const send = (): void => {
    while (left > 0) {
      const part = CHUNK.subarray(0, left)
      left -= part.length
      if (left === 0) response.end(part)
      else if (!response.write(part)) {
        response.once('drain', send)
        return
      }
    }
  }
  send()
}

createServer({ keepAliveTimeout: 0 }, answer).listen(http, host, () => process.stdout.write('ready\n'))
for (const port of tls?.ports ?? [])
  createTlsServer({ keepAliveTimeout: 0, cert: readFileSync(tls?.cert ?? ''), key: readFileSync(tls?.key ?? '') }, answer).listen(
    port,
    host,
  )
