/** How long a client that never authenticated may take to answer the goodbye. */
const GOODBYE_MS = 1000

/** A WebSocket of `ws`, whose receiver keeps how long a message may be over all its fragments. */
type StrangerSocket = {
  terminate(): void
  send(text: string): void
  close(code: number, reason: string): void
  once(event: 'close', listener: () => void): unknown
  on(event: 'error', listener: () => void): unknown
}

/** Lets messages be this long from now on: a server's `maxPayload` is that of its strangers. */
export function allowMessageBytes(ws: object, bytes: number): void {
  const { _receiver: receiver } = ws as { _receiver?: { _maxPayload: number } | null }
  if (receiver !== undefined && receiver !== null) receiver._maxPayload = bytes
}

/** Cuts a closing socket whose client never authenticated: a polite close waits half a minute for its response. */
export function terminateSoon(ws: StrangerSocket): void {
  const late = setTimeout(() => ws.terminate(), GOODBYE_MS)
  ws.once('close', () => clearTimeout(late))
}

/** Tells a client in a frame why it is refused, and closes. */
export function sayGoodbye(ws: StrangerSocket, frame: object, code: number, reason: string): void {
  // Of what is no frame `ws` emits an error, which would end the process if nobody listened.
  ws.on('error', () => ws.terminate())
  ws.send(JSON.stringify(frame))
  ws.close(code, reason)
  terminateSoon(ws)
}
