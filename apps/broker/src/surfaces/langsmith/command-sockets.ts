import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { OpenSockets, rawResponse } from '@boxoffice/node-http'
import { BoxofficeError, fromUnknown, LIMITS } from '@boxoffice/protocol'
import { WebSocketServer } from 'ws'
import type { DataplaneClient } from '../../dataplane/client.ts'
import type { Log } from '../../host/log.ts'
import { refusalHeaders } from '../../http/errors.ts'
import type { Caller } from '../facade/callers.ts'
import type { SandboxEnvironments } from '../facade/sandbox-environments.ts'
import type { Boxes } from './boxes.ts'
import { CommandSocket } from './commands/command-socket.ts'
import type { Unattended } from './commands/unattended.ts'
import { renderOfDataplane } from './errors.ts'

export type CommandSocketsOptions = {
  boxes: Boxes
  callerOf: (request: IncomingMessage) => Promise<Caller>
  dataplane: DataplaneClient
  environments: SandboxEnvironments
  unattended: Unattended
  /** Whether a page of this origin may connect. */
  originAllowed: (request: IncomingMessage) => boolean
  log: Log
}

/** `WS …/dp/{name}/execute/ws`. */
export interface CommandSockets {
  /** False where the path is none of the facade's. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): boolean
  close(): Promise<void>
}

const PATH = /^\/compat\/langsmith\/dp\/([^/?]+)\/execute\/ws(?:\?|$)/
/** A client comes again soon after 503, and gives up for good after most other statuses. */
const WAKE_WAIT = 10
const PING_MS = 30_000
const CLOSE = { goingAway: 1001 }

export function createCommandSockets({
  boxes,
  callerOf,
  dataplane,
  environments,
  unattended,
  originAllowed,
  log,
}: CommandSocketsOptions): CommandSockets {
  const sockets = new OpenSockets()
  const wss = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: LIMITS.messageBytes })

  /** Everything that can be refused is, before the upgrade. */
  const open = async (request: IncomingMessage, socket: Duplex, head: Buffer, name: string): Promise<void> => {
    if (!originAllowed(request)) throw new BoxofficeError('FORBIDDEN', 'this origin may not connect; list it in cors_origins')
    const { session, actor } = await boxes.attach(await callerOf(request), decoded(name), WAKE_WAIT)
    if (sockets.closing) throw new BoxofficeError('BACKEND_UNAVAILABLE', 'the broker is restarting; try again', { retryAfter: 1 })
    if (socket.destroyed) return
    wss.handleUpgrade(request, socket, head, (ws) => {
      const ping = setInterval(() => ws.ping(), PING_MS)
      ws.on('error', () => ws.terminate())
      ws.on('close', () => clearInterval(ping))
      new CommandSocket({
        ws,
        dataplane: dataplane.session(session.id, actor),
        sessionId: session.id,
        withBoxEnvironment: (own) => environments.withOwn(session.id, own),
        unattended,
        log,
      })
      sockets.add({ shutdown: () => ws.close(CLOSE.goingAway), terminate: () => ws.terminate() }, ws)
    })
  }

  const refuse = (socket: Duplex, thrown: unknown): void => {
    const error = fromUnknown(thrown)
    // A box that wakes: the client is to come again, and it does after 503.
    const shown = error.code === 'SANDBOX_STARTING' ? new BoxofficeError('BACKEND_UNAVAILABLE', error.message, { retryAfter: 1 }) : error
    const { status, body } = renderOfDataplane(shown)
    if (status >= 500) log.warn({ code: error.code, err: thrown }, error.message)
    const asked = shown.code === 'BACKEND_UNAVAILABLE' ? 503 : status
    rawResponse(socket, asked, refusalHeaders(shown, ''), JSON.stringify(body))
  }

  return {
    upgrade(request, socket, head) {
      const name = PATH.exec(request.url ?? '')?.[1]
      if (name === undefined) return false
      socket.on('error', () => socket.destroy())
      open(request, socket, head, name).catch((thrown: unknown) => refuse(socket, thrown))
      return true
    },
    async close() {
      unattended.close()
      await sockets.close()
    },
  }
}

const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new BoxofficeError('INVALID_REQUEST', 'the path is not valid')
  }
}
