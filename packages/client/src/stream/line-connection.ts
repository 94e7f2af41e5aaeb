import { LinesServerFrame, SUBPROTOCOL_BEARER_PREFIX, SUBPROTOCOL_LINES } from '@boxoffice/protocol'
import { toBase64 } from '../base/base64.ts'
import { type BoxofficeError, errorFromWire } from '../base/errors.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { openSocket } from '../network/socket.ts'
import type { Drop } from './reconnect.ts'

const PROBE_EVERY_MS = 15_000
const SILENT_FOR_MS = 45_000
const READY_WITHIN_MS = 30_000
/** From dialling to a connection, which is sooner. */
const OPEN_WITHIN_MS = 5_000
/** A token that could not be renewed in time is asked for again after. */
const RENEW_AGAIN_MS = 2_000

export type LinesReady = Extract<LinesServerFrame, { type: 'ready' }>

export type LineConnectionOptions = {
  dataplane: Pick<Dataplane, 'WebSocket' | 'token' | 'requestTimeoutMs'>
  url: string
  token: string
  handlers: LineConnectionHandlers
}

export type LineConnectionHandlers = {
  ready(frame: LinesReady, connection: LineConnection): void
  line(line: string): void
  /** The process has stdin up to here. */
  pong(stdinOffset: number): void
  /** It is time to say something, so that a connection without life is noticed. */
  probe(): void
  /** Exactly once, last. */
  ended(drop: Drop): void
}

export type LineConnection = {
  send(line: string): void
  /** Bytes of stdin as they are: the rest of a line. */
  stdin(bytes: Uint8Array): void
  ping(stdoutOffset: number): void
  close(code: number): void
}

/** One WebSocket with the lines of a managed process, from dialling to its end. It decides nothing about what comes next. */
export const openLineConnection = ({ dataplane, url, token, handlers }: LineConnectionOptions): LineConnection => {
  let opened = false
  let ended = false
  let error: BoxofficeError | undefined
  let heardAt = performance.now()
  let renewal: ReturnType<typeof setTimeout> | undefined
  const late = setTimeout(() => socket.drop(), READY_WITHIN_MS)
  const opening = setTimeout(() => socket.drop(), Math.min(OPEN_WITHIN_MS, dataplane.requestTimeoutMs))
  const probe = setInterval(() => {
    if (performance.now() - heardAt > SILENT_FOR_MS) socket.drop()
    else handlers.probe()
  }, PROBE_EVERY_MS)

  const control = (frame: object): void => socket.send(encoder.encode(JSON.stringify(frame)))
  const renewLater = (waitMs: number): void => {
    if (ended) return
    renewal = setTimeout(() => {
      dataplane.token.current().then(
        (fresh) => {
          control({ type: 'auth', token: fresh })
          renewLater(Math.max(RENEW_AGAIN_MS, dataplane.token.renewInMs()))
        },
        () => renewLater(RENEW_AGAIN_MS),
      )
    }, waitMs)
  }

  const socket = openSocket(dataplane.WebSocket, url, [SUBPROTOCOL_LINES, SUBPROTOCOL_BEARER_PREFIX + token], {
    open() {
      opened = true
      clearTimeout(opening)
    },
    text(line) {
      heardAt = performance.now()
      handlers.line(line)
    },
    bytes(message) {
      heardAt = performance.now()
      const frame = parse(message)
      if (frame?.type === 'ready') {
        clearTimeout(late)
        handlers.ready(frame, connection)
        renewLater(dataplane.token.renewInMs() + 100)
      } else if (frame?.type === 'pong') handlers.pong(frame.stdin_offset)
      else if (frame?.type === 'error') error = errorFromWire(frame.error)
    },
    closed(code, reason) {
      ended = true
      for (const timer of [late, opening, probe, renewal]) clearTimeout(timer)
      handlers.ended({ code, reason, error, url, unopened: !opened })
    },
  })

  const connection: LineConnection = {
    send: (line) => socket.send(line),
    stdin: (bytes) => control({ type: 'stdin', data: toBase64(bytes) }),
    ping: (stdoutOffset) => control({ type: 'ping', stdout_offset: stdoutOffset }),
    close: (code) => socket.close(code),
  }
  return connection
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Undefined for a frame of a newer server. */
const parse = (message: Uint8Array): LinesServerFrame | undefined => {
  try {
    return LinesServerFrame.safeParse(JSON.parse(decoder.decode(message))).data
  } catch {
    return undefined
  }
}
