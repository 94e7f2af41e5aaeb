import { createReadStream, createWriteStream } from 'node:fs'
import { createServer } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { WebSocketServer } from 'ws'

// What the product is compared with, in a process of its own like the agent: a bare `ws` sender and a bare `node:http`
// file server. Prints its port; the scratch directory is its argument.
const [scratch] = process.argv.slice(2)
const CHUNK = Buffer.alloc(64 * 1024, 1)
const HIGH_WATER = 512 * 1024

const server = createServer((request, response) => {
  const done = (error?: unknown): void => {
    if (error !== undefined) response.destroy(error as Error)
  }
  if (request.method === 'PUT') {
    pipeline(request, createWriteStream(`${scratch}/bare-upload`)).then(() => response.writeHead(204).end(), done)
  } else {
    response.writeHead(200, { 'content-length': String(1024 ** 3) })
    pipeline(createReadStream(`${scratch}/bare-download`, { highWaterMark: 64 * 1024 }), response).catch(done)
  }
})

const sockets = new WebSocketServer({ server, perMessageDeflate: false })
sockets.on('connection', (socket) => {
  socket.on('message', (message) => {
    let left = Number(String(message))
    const send = (): void => {
      while (left > 0 && socket.bufferedAmount < HIGH_WATER) {
        left -= CHUNK.length
        socket.send(CHUNK, left > 0 ? undefined : () => socket.close(1000))
      }
      if (left > 0) setImmediate(send)
    }
    send()
  })
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address !== null && typeof address === 'object') process.stdout.write(`${address.port}\n`)
})
