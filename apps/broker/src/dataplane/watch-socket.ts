import { type BoxofficeError, WatchServerFrame as Frame, SUBPROTOCOL, type WatchServerFrame } from '@boxoffice/protocol'
import { WebSocket } from 'ws'
import type { AgentTls } from '../relay/http1/agent-tls.ts'
import type { Access } from './access.ts'
import { dialAgent, frameError, readFrame, renewLater, SOCKET_CLOSE, unreachable } from './agent-socket.ts'

export type WatchChange = Extract<WatchServerFrame, { type: 'change' }>

export type WatchHandlers = {
  change(change: WatchChange): void
  /** Changes are lost: there were more than somebody could take. */
  overflow(): void
  /** Once, last. Without an error the directory is gone, or `leave` was called. */
  closed(error?: BoxofficeError): void
}

/** A watch of one directory; a lost connection ends it. */
export interface WatchSocket {
  /** Backpressure: no changes until `resume`. */
  pause(): void
  resume(): void
  leave(): void
}

export type WatchSocketOptions = {
  access: () => Promise<Access>
  /** Of `WS /files/watch`, with its `?`. */
  query: string
  handlers: WatchHandlers
  /** Milliseconds that never jump. */
  monotonic: () => number
  agentTls?: AgentTls
}

const MAX_MESSAGE_BYTES = 1024 * 1024

/** Opens it. Resolves once changes are told; rejects with the agent's refusal. */
export async function openWatchSocket({ access, query, handlers, monotonic, agentTls }: WatchSocketOptions): Promise<WatchSocket> {
  const known = await access()
  const ready = Promise.withResolvers<void>()
  const ws = dialAgent(known, {
    path: `/files/watch${query}`,
    protocol: SUBPROTOCOL,
    maxPayload: MAX_MESSAGE_BYTES,
    agentTls,
    refused: ready.reject,
  })
  let renewal: NodeJS.Timeout | undefined
  let error: BoxofficeError | undefined
  let isReady = false
  let isOver = false
  const renew = (expiresAt: number): void => {
    renewal = renewLater({ access, monotonic }, expiresAt, ({ token, expiresAt: next }) => {
      if (isOver) return
      if (ws.readyState === WebSocket.OPEN) ws.send(JSON.stringify({ type: 'auth', token }))
      renew(next)
    })
  }
  ws.on('message', (data) => {
    const frame = readFrame(ws, Frame, data)
    if (frame?.type === 'ready') {
      isReady = true
      ready.resolve()
    } else if (frame?.type === 'change') handlers.change(frame)
    else if (frame?.type === 'overflow') handlers.overflow()
    else if (frame?.type === 'error') error = frameError(frame.error)
  })
  ws.on('close', (code) => {
    clearTimeout(renewal)
    const why = code === SOCKET_CLOSE.done ? undefined : (error ?? unreachable(code))
    ready.reject(why ?? unreachable(code))
    if (isReady && !isOver) handlers.closed(why)
    isOver = true
  })
  await ready.promise
  renew(known.expiresAt)
  return {
    pause: () => ws.pause(),
    resume: () => ws.resume(),
    leave() {
      isOver = true
      ws.resume()
      ws.close(SOCKET_CLOSE.done)
    },
  }
}
