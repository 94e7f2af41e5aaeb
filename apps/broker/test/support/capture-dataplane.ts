import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'

export type Captured = { method: string; url: string; headers: IncomingMessage['headers']; body: string }

/** Stands where an agent's dataplane would: keeps what it is asked, and answers as the test says. */
export async function startCapture() {
  const requests: Captured[] = []
  const sockets: { ws: WebSocket; headers: IncomingMessage['headers']; url: string; messages: string[] }[] = []
  const connections = new Set<Socket>()
  const answers = {
    /** After the whole body has come. */
    http: (_request: Captured, response: ServerResponse): void => void response.end('{}'),
    /** Instead of all that, when set. */
    raw: undefined as ((incoming: IncomingMessage, outgoing: ServerResponse) => void) | undefined,
    /** Upgrades get no answer. */
    silent: false,
    /** Instead of the upgrade, when set. */
    refusal: undefined as { status: number; body: unknown; headers?: Record<string, string> } | undefined,
  }
  const server = createServer(async (incoming, outgoing) => {
    if (answers.raw !== undefined) return answers.raw(incoming, outgoing)
    let body = ''
    for await (const chunk of incoming) body += String(chunk)
    const captured = { method: incoming.method ?? '', url: incoming.url ?? '', headers: incoming.headers, body }
    requests.push(captured)
    answers.http(captured, outgoing)
  })
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  const wss = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false })
  server.on('upgrade', (request, socket, head) => {
    const { refusal, silent } = answers
    if (silent)
      return void socket
        .on('error', () => {})
        .on('end', () => socket.destroy())
        .resume()
    if (refusal !== undefined) {
      const text = JSON.stringify(refusal.body)
      const headers = { 'content-length': String(Buffer.byteLength(text)), connection: 'close', ...refusal.headers }
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
      return void socket.end(`HTTP/1.1 ${refusal.status} Refused\r\n${lines.join('')}\r\n${text}`)
    }
    wss.handleUpgrade(request, socket, head, (ws) => {
      const messages: string[] = []
      ws.on('message', (data) => messages.push(String(data)))
      sockets.push({ ws, headers: request.headers, url: request.url ?? '', messages })
      server.emit('opened')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    sockets,
    answers,
    opened: () => once(server, 'opened'),
    connections: () => connections.size,
    /** As when the process dies. */
    cut: () => {
      for (const socket of connections) socket.resetAndDestroy()
    },
    async close() {
      for (const socket of connections) socket.destroy()
      wss.close()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
}
