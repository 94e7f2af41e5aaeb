import { CLOSE, type ExitFrame, type ReadyFrame, ServerFrame, STREAM_STDERR, STREAM_STDOUT, SUBPROTOCOL_BINARY } from '@boxoffice/protocol'
import { BoxofficeError, errorFromWire } from '../base/errors.ts'
import { openSocket, type WebSocketConstructor } from '../network/socket.ts'
import { Watchdog } from '../network/watchdog.ts'
import type { Drop } from './reconnect.ts'

/** From dialling to `ready`; a suspended sandbox may take 10 s to wake. */
const READY_WITHIN_MS = 15_000
/** From dialling to a connection, which is sooner: where packets are dropped nobody says so. */
const OPEN_WITHIN_MS = 5_000
/** How often a quiet connection is tried, and how long it may stay without a word: browsers do not show protocol pings. */
const PROBE_EVERY_MS = 3_000
const SILENT_FOR_MS = 10_000
const FIRST_OWN_CODE = 4000

export type ConnectionOptions = {
  WebSocket: WebSocketConstructor
  url: string
  token: string
  /** From dialling to a connection at most, if that is sooner than usual. */
  openWithinMs: number
  /** Sent after `auth_ok`: a `start` frame. */
  start: Record<string, unknown>
  handlers: ConnectionHandlers
}

export type ConnectionHandlers = {
  ready(frame: ReadyFrame, connection: Connection): void
  output(stream: 'stdout' | 'stderr', bytes: Uint8Array): void
  pong(stdinOffset: number | undefined): void
  /** Exactly once, last. */
  ended(end: { exit: ExitFrame } | { drop: Drop }): void
}

export type Connection = {
  send(frame: Record<string, unknown>): void
  sendBytes(message: Uint8Array<ArrayBuffer>): void
  /** Closes as done (the process is told nothing by this). */
  close(): void
}

/**
 * One WebSocket, from dialling to its end: `auth → auth_ok → start → ready → output → exit`. It decides nothing about
 * what comes next; `handlers.ended` says how it went.
 */
export const openConnection = ({ WebSocket, url, token, openWithinMs, start, handlers }: ConnectionOptions): Connection => {
  let exit: ExitFrame | undefined
  /** Why it closes. */
  let error: BoxofficeError | undefined
  /** The last `error` frame. Not every one is fatal: it says why only where the close is one that an error precedes [C-37]. */
  let told: BoxofficeError | undefined
  let ready = false

  const sendFrame = (frame: Record<string, unknown>) => socket.send(JSON.stringify(frame))

  let opened = false
  let silent = false
  const giveUp = (): void => {
    silent = true
    socket.drop()
  }
  const opening = setTimeout(giveUp, Math.min(OPEN_WITHIN_MS, openWithinMs))
  const dial = setTimeout(giveUp, READY_WITHIN_MS)
  // Until it is ready, `dial` watches it.
  let watchdog: Watchdog | undefined
  let heardLately = false
  const heard = (): void => {
    heardLately = true
    watchdog?.heard(SILENT_FOR_MS)
  }
  const probe = setInterval(() => {
    if (ready && !heardLately) sendFrame({ type: 'ping' })
    heardLately = false
  }, PROBE_EVERY_MS)

  const receive = (frame: ServerFrame) => {
    switch (frame.type) {
      case 'auth_ok':
        if (!started) {
          started = true
          sendFrame(start)
        }
        return
      case 'ready':
        ready = true
        clearTimeout(dial)
        watchdog = new Watchdog(() => socket.drop(), SILENT_FOR_MS)
        return handlers.ready(frame, connection)
      case 'pong':
        return handlers.pong(frame.stdin_offset)
      case 'exit':
        exit = frame
        return socket.close(1000)
      case 'error':
        told = errorFromWire(frame.error)
        return
      case 'stdout':
      case 'stderr':
        // Output is binary with this subprotocol.
        return
    }
  }
  let started = false

  const socket = openSocket(WebSocket, url, [SUBPROTOCOL_BINARY], {
    open() {
      opened = true
      clearTimeout(opening)
      if (socket.protocol !== SUBPROTOCOL_BINARY) {
        error = new BoxofficeError('INVALID_RESPONSE', `${new URL(url).origin} does not speak ${SUBPROTOCOL_BINARY}`)
        return socket.drop()
      }
      sendFrame({ type: 'auth', token })
    },
    text(message) {
      heard()
      const frame = parseFrame(message)
      if (frame !== undefined) receive(frame)
    },
    bytes(message) {
      heard()
      if (!ready || exit !== undefined) return
      if (message[0] === STREAM_STDOUT) handlers.output('stdout', message.subarray(1))
      else if (message[0] === STREAM_STDERR) handlers.output('stderr', message.subarray(1))
    },
    closed(code, reason) {
      clearTimeout(opening)
      clearTimeout(dial)
      clearInterval(probe)
      watchdog?.stop()
      if (code >= FIRST_OWN_CODE || code === CLOSE.internal) error ??= told
      handlers.ended(exit === undefined ? { drop: { code, reason, error, url, unopened: !opened, silent } } : { exit })
    },
  })

  const connection: Connection = {
    send: sendFrame,
    sendBytes: (message) => socket.send(message),
    close: () => socket.close(1000),
  }
  return connection
}

/** Undefined for a frame of a newer server. */
const parseFrame = (message: string): ServerFrame | undefined => {
  try {
    return ServerFrame.safeParse(JSON.parse(message)).data
  } catch {
    return undefined
  }
}
