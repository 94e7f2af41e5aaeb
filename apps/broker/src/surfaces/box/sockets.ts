import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { markAuthenticated, OpenSockets, rawResponse } from '@boxoffice/node-http'
import { BoxofficeError, fromUnknown, PROCESS_LIMITS, SUBPROTOCOL_MCP } from '@boxoffice/protocol'
import { type WebSocket, WebSocketServer } from 'ws'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { LineSocket } from '../../dataplane/line-socket.ts'
import type { Log } from '../../host/log.ts'
import { holderOf } from '../../http/auth.ts'
import type { BoxCaller } from './box-sessions.ts'
import type { Callers } from './callers.ts'
import { toBoxRefusal } from './errors.ts'
import { answerRpc } from './rpc.ts'
import type { BoxService } from './service.ts'

export type BoxSocketsOptions = { box: BoxService; callers: Callers; dataplane: DataplaneClient; corsOrigins: readonly string[]; log: Log }

/** The WebSockets of the Box surface: the RPC, and managed processes to attach to [2-40, 2-43, 2-67]. */
export interface BoxSockets {
  /** Answers an upgrade below `base`; false where the path is none of the surface's. `rpcAtRoot`: the RPC is at `/` as well [2-44]. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, at: { base: string; rpcAtRoot?: boolean }): boolean
  close(): Promise<void>
}

const ATTACH = /^\/v1\/sessions\/([^/]+)\/managed-process(?:\/([^/]+))?\/ws$/
/** Of paths such as `//`. */
const NO_URL = { pathname: '//', searchParams: new URLSearchParams() }
const PING_MS = 30_000
const HIGH_WATER_BYTES = 1024 * 1024
const CLOSE = { done: 1000, goingAway: 1001, unsupported: 1003, internal: 1011 }

export function createBoxSockets({ box, callers, dataplane, corsOrigins, log }: BoxSocketsOptions): BoxSockets {
  const sockets = new OpenSockets()
  const wss = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: PROCESS_LIMITS.lineBytes,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL_MCP) ? SUBPROTOCOL_MCP : false),
  })

  const accept = (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<WebSocket> =>
    new Promise((resolve) =>
      wss.handleUpgrade(request, socket, head, (ws) => {
        const ping = setInterval(() => ws.ping(), PING_MS)
        ws.on('error', () => ws.terminate())
        ws.on('close', () => clearInterval(ping))
        sockets.add({ shutdown: () => ws.close(CLOSE.goingAway), terminate: () => ws.terminate() }, ws)
        resolve(ws)
      }),
    )

  /** A page of another origin must not act with what a browser sends by itself. */
  const requireOrigin = ({ headers }: IncomingMessage): void => {
    const { origin } = headers
    if (origin !== undefined && !corsOrigins.includes('*') && !corsOrigins.includes(origin))
      throw new BoxofficeError('FORBIDDEN', `the origin ${origin.slice(0, 200)} is not in cors_origins`)
  }

  const callerOf = async (request: IncomingMessage): Promise<BoxCaller> => {
    const headerOf = (name: string): string | undefined => {
      const value = request.headers[name.toLowerCase()]
      return Array.isArray(value) ? value[0] : value
    }
    const caller = await callers.controller(headerOf, request.socket.remoteAddress ?? 'unknown')
    markAuthenticated(request.socket, holderOf(caller.principal))
    return caller
  }

  const rpc = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const caller = await callerOf(request)
    const ws = await accept(request, socket, head)
    ws.on('message', (message, isBinary) => {
      if (isBinary) return ws.close(CLOSE.unsupported, 'text messages only')
      void answerRpc(box, caller, String(message), log).then((response) => {
        if (ws.readyState === ws.OPEN) ws.send(JSON.stringify(response))
      })
    })
  }

  /** Everything that can be refused is, before the upgrade [2-66]. */
  const attach = async (request: IncomingMessage, socket: Duplex, head: Buffer, id: string, pid: string, takeover: boolean) => {
    const caller = await callerOf(request)
    const lines = await box.guard(
      caller,
      () => undefined,
      async () => {
        const session = await box.attachable(caller, id)
        return openLines(session.id, pid, takeover)
      },
    )
    if (socket.destroyed) return lines.process.close()
    const ws = await accept(request, socket, head)
    lines.begin(ws)
    ws.on('message', (message, isBinary) => {
      if (isBinary) return ws.close(CLOSE.unsupported, 'text messages only')
      if (!lines.process.send(String(message))) ws.pause()
    })
    ws.on('close', () => lines.process.close())
  }

  /** The process's lines, kept until there is a socket for them. */
  const openLines = async (sessionId: string, pid: string, takeover: boolean) => {
    const early: string[] = []
    let ws: WebSocket | undefined
    let end: { error: BoxofficeError | undefined } | undefined
    let process: LineSocket | undefined
    const finish = (error: BoxofficeError | undefined): void => {
      // A paused one does not hear the answer to its close.
      ws?.resume()
      if (error === undefined) ws?.close(CLOSE.done)
      else ws?.close(error.closeCode, error.message.slice(0, 100))
    }
    const send = (line: string): void => {
      if (ws === undefined) return void early.push(line)
      ws.send(line, () => {
        if ((ws?.bufferedAmount ?? 0) < HIGH_WATER_BYTES / 2) process?.resume()
      })
      if (ws.bufferedAmount > HIGH_WATER_BYTES) process?.pause()
    }
    process = await dataplane.session(sessionId).processes.attach(
      pid,
      {
        line: send,
        drain: () => ws?.resume(),
        closed: (error) => {
          end = { error }
          finish(error)
        },
      },
      { takeover },
    )
    return {
      process,
      begin(opened: WebSocket): void {
        ws = opened
        for (const line of early.splice(0)) send(line)
        if (end !== undefined) finish(end.error)
      },
    }
  }

  const refuse = (socket: Duplex, thrown: unknown): void => {
    const { status, code, message } = toBoxRefusal(fromUnknown(thrown))
    if (status >= 500) log.warn({ code, err: thrown }, message)
    rawResponse(socket, status, { 'content-type': 'application/json' }, JSON.stringify({ error: { code, message } }))
  }

  return {
    upgrade(request, socket, head, { base, rpcAtRoot = false }) {
      const { pathname, searchParams } = URL.parse(request.url ?? '/', 'http://localhost') ?? NO_URL
      if (!pathname.startsWith(`${base}/`)) return false
      const path = pathname.slice(base.length)
      const [matched, id = '', pid = 'default'] = ATTACH.exec(path) ?? []
      const isRpc = path === '/rpc/ws' || (rpcAtRoot && path === '/')
      socket.on('error', () => socket.destroy())
      const answer = async (): Promise<void> => {
        requireOrigin(request)
        if (isRpc) return rpc(request, socket, head)
        if (matched === undefined) throw new BoxofficeError('NOT_FOUND', 'the Box surface has no socket here')
        return attach(request, socket, head, decoded(id), decoded(pid), searchParams.get('takeover') === 'true')
      }
      answer().catch((thrown: unknown) => refuse(socket, thrown))
      return true
    },
    close: () => sockets.close(),
  }
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new BoxofficeError('INVALID_REQUEST', 'the path is not valid')
  }
}
