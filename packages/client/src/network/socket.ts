import { BoxofficeError } from '../base/errors.ts'

/** What the core needs of a WebSocket: the browser's and Node's global one have it. */
export type WebSocketLike = {
  binaryType: string
  readonly protocol: string
  readonly readyState: number
  send(message: string | Uint8Array<ArrayBuffer>): void
  close(code?: number, reason?: string): void
  addEventListener(type: 'open' | 'error', listener: () => void): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: { code: number; reason: string }) => void): void
}
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike

let fallback: WebSocketConstructor | undefined

/** Sets the WebSocket of runtimes that have none of their own. */
export const setDefaultWebSocket = (standIn: WebSocketConstructor): void => {
  fallback = standIn
}

/** The runtime's own, or what stands in for it, by the time that a socket is opened. Throws with what to do where there is neither. */
export const RuntimeWebSocket = function openRuntimeSocket(url: string, protocols: string[]): WebSocketLike {
  const Found = globalThis.WebSocket ?? fallback
  if (Found !== undefined) return new Found(url, protocols)
  throw new BoxofficeError(
    'UNSUPPORTED',
    'this runtime has no WebSocket; give one to connect(url, { WebSocket }), as that of the package ws',
  )
} as unknown as WebSocketConstructor

export type SocketHandlers = {
  open(): void
  text(message: string): void
  bytes(message: Uint8Array): void
  /** Exactly once, and nothing after it. 1006 when the connection was lost or never made. */
  closed(code: number, reason: string): void
}

export type Socket = {
  readonly protocol: string
  send(message: string | Uint8Array<ArrayBuffer>): void
  /** Says goodbye; `closed` follows at the latest after `CLOSE_WITHIN_MS`. */
  close(code: number): void
  /** Treats the connection as lost, now. */
  drop(): void
}

const OPEN = 1
const CLOSE_WITHIN_MS = 1_000

export const openSocket = (WebSocket: WebSocketConstructor, url: string, protocols: string[], handlers: SocketHandlers): Socket => {
  const socket = new WebSocket(url, protocols)
  socket.binaryType = 'arraybuffer'
  let ended = false
  let closeTimer: ReturnType<typeof setTimeout> | undefined

  const end = (code: number, reason: string) => {
    if (ended) return
    ended = true
    clearTimeout(closeTimer)
    handlers.closed(code, reason)
  }
  const goodbye = (code: number) => {
    try {
      socket.close(code)
    } catch {
      // A socket that cannot be closed is not connected.
    }
  }

  socket.addEventListener('open', () => !ended && handlers.open())
  socket.addEventListener('message', ({ data }) => {
    if (ended) return
    if (typeof data === 'string') handlers.text(data)
    else if (data instanceof ArrayBuffer) handlers.bytes(new Uint8Array(data))
  })
  // The close event that follows says all that there is to know.
  socket.addEventListener('error', () => {})
  socket.addEventListener('close', ({ code, reason }) => end(code, reason))

  return {
    get protocol() {
      return socket.protocol
    },
    send(message) {
      if (!ended && socket.readyState === OPEN) socket.send(message)
    },
    close(code) {
      goodbye(code)
      closeTimer ??= setTimeout(() => end(1006, 'no answer to close'), CLOSE_WITHIN_MS)
    },
    drop() {
      goodbye(4000)
      end(1006, 'dropped')
    },
  }
}
