import { deferred } from '@boxoffice/kit/deferred'
import { CLOSE, SUBPROTOCOL, SUBPROTOCOL_BEARER_PREFIX, WatchServerFrame } from '@boxoffice/protocol'
import { type BoxofficeError, errorFromWire } from '../base/errors.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { openSocket } from '../network/socket.ts'
import { Watchdog } from '../network/watchdog.ts'
import type { Drop } from './reconnect.ts'

const PROBE_EVERY_MS = 15_000
const SILENT_FOR_MS = 45_000
/** A token that could not be renewed in time is asked for again after. */
const RENEW_AGAIN_MS = 2_000

export type WatchFrame = Extract<WatchServerFrame, { type: 'ready' | 'change' | 'overflow' | 'end' }>

/** One WebSocket of a watch. `frames` hears of what comes; resolves with how it ended. It decides nothing about what comes next. */
export const runWatchConnection = (
  dataplane: Pick<Dataplane, 'WebSocket' | 'token' | 'requestTimeoutMs'>,
  { url, token, signal, frame }: { url: string; token: string; signal: AbortSignal; frame: (frame: WatchFrame) => void },
): Promise<Drop> => {
  const { promise, resolve } = deferred<Drop>()
  let opened = false
  let ended = false
  let error: BoxofficeError | undefined
  let renewal: ReturnType<typeof setTimeout> | undefined
  const renewLater = (waitMs: number): void => {
    if (ended) return
    renewal = setTimeout(() => {
      dataplane.token.current().then(
        (fresh) => {
          socket.send(JSON.stringify({ type: 'auth', token: fresh }))
          renewLater(Math.max(RENEW_AGAIN_MS, dataplane.token.renewInMs()))
        },
        () => renewLater(RENEW_AGAIN_MS),
      )
    }, waitMs)
  }
  const take = (text: string): void => {
    watchdog.heard(SILENT_FOR_MS)
    const told = parse(text)
    if (told?.type === 'error') error = errorFromWire(told.error)
    else if (told !== undefined && told.type !== 'auth_ok' && told.type !== 'pong') frame(told)
  }
  const leave = (): void => socket.close(CLOSE.done)
  const socket = openSocket(dataplane.WebSocket, url, [SUBPROTOCOL, SUBPROTOCOL_BEARER_PREFIX + token], {
    open() {
      opened = true
      renewLater(dataplane.token.renewInMs() + 100)
    },
    text: take,
    bytes() {},
    closed(code, reason) {
      ended = true
      watchdog.stop()
      clearInterval(probe)
      clearTimeout(renewal)
      signal.removeEventListener('abort', leave)
      resolve({ code, reason, error, url, unopened: !opened })
    },
  })
  // After the socket, which may not come to be.
  const watchdog = new Watchdog(() => socket.drop(), dataplane.requestTimeoutMs)
  const probe = setInterval(() => socket.send(JSON.stringify({ type: 'ping' })), PROBE_EVERY_MS)
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  return promise
}

/** Undefined for a frame of a newer server. */
const parse = (text: string): WatchServerFrame | undefined => {
  try {
    return WatchServerFrame.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
