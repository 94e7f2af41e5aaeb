import { type ClientRequest, type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { BoxofficeError } from '@boxoffice/protocol'
import { namesWebSocket } from '../refusals/names-websocket.ts'

/** A client that asks for a WebSocket, with what it has sent after its request, and its request upstream, which has not been ended. */
export type PassedUpgrade = {
  socket: Duplex
  head: Buffer
  upstream: ClientRequest
  /** The headers that the client gets of the response, as `[name, value, …]`, without those of the connection. */
  headersOf: (response: IncomingMessage) => string[]
}

/** A refusal is passed back up to this. */
const MAX_REFUSAL_BYTES = 64 * 1024

/**
 * Passes the handshake of a WebSocket on and, where it is taken, the bytes both ways until one side closes; a refusal is passed back.
 * Rejects before anything was answered.
 */
export const passUpgrade = async ({ socket, head, upstream, headersOf }: PassedUpgrade): Promise<void> => {
  const clientAborted = (): void => void upstream.destroy(new Error('the client closed the connection'))
  socket.once('close', clientAborted)
  try {
    await new Promise<void>((resolve, reject) => {
      upstream.on('upgrade', (response, stream: Duplex, first) => {
        // A switch to anything else was not asked for.
        if (!namesWebSocket(response)) {
          stream.destroy()
          return reject(new BoxofficeError('CONNECTION_RESET', 'The program behind this port switched to another protocol than WebSocket'))
        }
        writeHead(socket, 101, [...headersOf(response), 'Connection', 'Upgrade', 'Upgrade', 'websocket'])
        join(socket, stream, { toClient: first, toProgram: head }).then(resolve, reject)
      })
      upstream.on('response', (response) => {
        // Its length may be told in pieces, which end with the connection here.
        writeHead(socket, response.statusCode ?? 502, [...headersOf(response), 'Connection', 'close'])
        let bytes = 0
        response.on('data', (piece: Buffer) => {
          bytes += piece.length
          if (bytes > MAX_REFUSAL_BYTES) return response.destroy()
          socket.write(piece)
        })
        response.on('close', () => {
          socket.end()
          resolve()
        })
      })
      upstream.on('error', reject)
      upstream.end()
    })
  } finally {
    socket.off('close', clientAborted)
    upstream.destroy()
  }
}

/** Passes bytes both ways; each side's end ends the other's. Resolves when both connections are over. */
const join = async (client: Duplex, program: Duplex, { toClient, toProgram }: { toClient: Buffer; toProgram: Buffer }): Promise<void> => {
  const over = (stream: Duplex, other: Duplex): Promise<void> =>
    new Promise((resolve) => {
      stream.on('error', () => other.destroy())
      stream.once('close', () => {
        closeAfterWrites(other)
        resolve()
      })
    })
  const both = Promise.all([over(client, program), over(program, client)])
  if (toClient.length > 0) client.write(toClient)
  if (toProgram.length > 0) program.write(toProgram)
  client.pipe(program)
  program.pipe(client)
  await both
}

/** The other side is gone: what it said last still goes out, in so many milliseconds. */
const LAST_WORDS_MS = 5000

const closeAfterWrites = (stream: Duplex): void => {
  if (stream.destroyed) return
  if (stream.writableFinished) return void stream.destroy()
  const late = setTimeout(() => stream.destroy(), LAST_WORDS_MS)
  stream.once('close', () => clearTimeout(late))
  stream.once('finish', () => stream.destroy())
  stream.end()
}

/** With the usual reason: that of the other side may hold characters that begin a line. */
const writeHead = (socket: Duplex, status: number, headers: readonly string[]): void => {
  const lines = [`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`]
  for (let i = 0; i + 1 < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
}
