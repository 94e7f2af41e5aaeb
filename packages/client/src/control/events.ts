import { sleep } from '@boxoffice/kit/sleep'
import {
  type EgressFact,
  EVENT_DATA,
  EventHeader,
  type ExitReason,
  endsStream,
  GapEvent,
  type KillCause,
  type PreviewAccess,
  type SessionEventData,
  type SessionEventType,
  type SessionState,
} from '@boxoffice/protocol'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { BoxofficeError, ConnectionError } from '../base/errors.ts'
import { type OptionNames, refuseUnknown } from '../base/known-options.ts'
import { anySignal } from '../base/signals.ts'
import { backoffMs, retrying } from '../network/backoff.ts'
import type { ControlPlane } from './control-plane.ts'

/** `id` is what `lastEventId` takes, `at` when it happened. */
type Told = { id: number; at: Date }

type EventExit = {
  /** Null where nobody saw the end. */
  exitCode: number | null
  signal: string | null
  reason: ExitReason
  killCause: KillCause | null
  oomKilled: boolean
  durationMs: number | null
}

/** What happens to a session, in its order. */
export type SessionEvent =
  | (Told & {
      type: 'state'
      state: SessionState
      previous: SessionState | null
      /** How it is suspended. */
      mode: 'freeze' | 'stop' | null
      /** Why it ended. */
      reason: string | null
    })
  | (Told & { type: 'wake'; from: 'freeze' | 'stop' })
  /** A program connected somewhere through the proxy, or was refused (`code`); `times`: so often since the last such event. */
  | (Told & { type: 'egress' } & EgressFact)
  | (Told & { type: 'exec.exit'; kind: 'exec' | 'shell'; execId?: string; shellId?: string } & EventExit)
  | (Told & { type: 'process.exit'; processId: string } & EventExit)
  | (Told & { type: 'lease'; leaseExpiresAt: Date })
  /** Another policy says where its programs may connect to. */
  | (Told & { type: 'egress.changed'; source: 'profile' | 'session' })
  | (Told & { type: 'released' })
  /** A port has a host of its own, or its terms have changed. */
  | (Told & { type: 'port.exposed'; port: number; access: PreviewAccess; expiresAt: Date | null })
  | (Told & { type: 'port.withdrawn'; port: number })
  /** The events `from` to `to` happened, and are kept no longer. */
  | { type: 'gap'; id: null; from: number; to: number }

export type EventsOptions = {
  /** Goes on after this event; without it the oldest event that is kept is the first. */
  lastEventId?: number | undefined
  signal?: AbortSignal | undefined
}

const EVENTS: OptionNames<EventsOptions> = { lastEventId: true, signal: true }

/** The server says something each 15 s; a connection that is silent for so long is dead, whatever the network says. */
const SILENCE_MS = 45_000

/**
 * Follows a session to its end. A connection that drops is made again, and no event is lost or repeated; only a broker that stays
 * away for `windowMs` ends it with an error.
 */
export async function* followEvents(
  controlPlane: ControlPlane,
  path: string,
  windowMs: number,
  options: EventsOptions = {},
): AsyncGenerator<SessionEvent, void, undefined> {
  refuseUnknown('events', options, EVENTS)
  const { lastEventId, signal } = options
  let last = lastEventId
  for (let idle = 0; ; idle++) {
    const connection = new AbortController()
    try {
      const attempt = () => connect(controlPlane, path, last, connection, signal)
      const messages = await retrying(attempt, { windowMs, after: ['CONNECTION_FAILED'], signal })
      try {
        for await (const { id, event: type = '', data } of messages) {
          const event = toEvent(type, id, data)
          if (event === undefined) continue
          idle = 0
          if (event.id !== null) last = event.id
          yield event
          if (event.type !== 'gap' && endsStream(event.type, event as { state?: unknown; reason?: unknown })) return
        }
      } catch (error) {
        if (signal?.aborted || !(error instanceof ConnectionError)) throw error
      }
      if (messages.over) return
    } finally {
      connection.abort()
    }
    await sleep(backoffMs(idle), signal)
  }
}

/** `over`: the session has ended, and there is no event that the caller has not had. */
type Messages = AsyncIterable<EventSourceMessage> & { over: boolean }

const connect = async (
  controlPlane: ControlPlane,
  path: string,
  last: number | undefined,
  connection: AbortController,
  caller: AbortSignal | undefined,
): Promise<Messages> => {
  const headers = { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': String(last) }) }
  try {
    const response = await controlPlane.open(path, { headers, signal: anySignal(connection.signal, caller) })
    const messages = response.status === 204 || response.body === null ? noMessages() : messagesOf(response.body, connection, caller)
    return Object.assign(messages, { over: response.status === 204 })
  } catch (error) {
    // Busy, or about to stop: another try, maybe at another broker, is what it asks for.
    if (error instanceof BoxofficeError && error.retryable) throw new ConnectionError(error.message, error)
    throw error
  }
}

async function* noMessages(): AsyncGenerator<EventSourceMessage, void, undefined> {}

async function* messagesOf(
  body: ReadableStream<Uint8Array>,
  connection: AbortController,
  caller: AbortSignal | undefined,
): AsyncGenerator<EventSourceMessage, void, undefined> {
  const messages: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (message) => messages.push(message) })
  const text = new TextDecoder()
  const reader = body.getReader()
  for (;;) {
    const silent = setTimeout(() => connection.abort(new ConnectionError('the event stream is silent')), SILENCE_MS)
    const chunk = await reader.read().catch((error: unknown) => {
      throw caller?.aborted ? caller.reason : connection.signal.aborted ? connection.signal.reason : dropped(error)
    })
    clearTimeout(silent)
    if (chunk.done) return
    parser.feed(text.decode(chunk.value, { stream: true }))
    yield* messages.splice(0)
  }
}

const dropped = (error: unknown): ConnectionError => new ConnectionError('the event stream dropped', error)

/** Undefined for what this version does not know: a type, or a value of one. */
const toEvent = (type: string, id: string | undefined, text: string): SessionEvent | undefined => {
  try {
    return parsed(type, id, text)
  } catch {
    return undefined
  }
}

const parsed = (type: string, id: string | undefined, text: string): SessionEvent | undefined => {
  const body: unknown = JSON.parse(text)
  if (type === 'gap') {
    const { from, to } = GapEvent.parse(body)
    return { type, id: null, from, to }
  }
  if (!(type in EVENT_DATA)) return undefined
  const { ts } = EventHeader.parse(body)
  const told: Told = { id: Number(id), at: new Date(ts) }
  return shaped(type as SessionEventType, told, body)
}

const shaped = (type: SessionEventType, told: Told, body: unknown): SessionEvent => {
  switch (type) {
    case 'state':
      return { ...told, type, ...EVENT_DATA.state.parse(body) }
    case 'wake':
      return { ...told, type, ...EVENT_DATA.wake.parse(body) }
    case 'egress':
      return { ...told, type, ...EVENT_DATA.egress.parse(body) }
    case 'egress.changed':
      return { ...told, type, ...EVENT_DATA['egress.changed'].parse(body) }
    case 'exec.exit': {
      const data = EVENT_DATA['exec.exit'].parse(body)
      const id = data.kind === 'exec' ? { execId: data.exec_id ?? '' } : { shellId: data.shell_id ?? '' }
      return { ...told, type, kind: data.kind, ...id, ...exitOf(data) }
    }
    case 'process.exit': {
      const data = EVENT_DATA['process.exit'].parse(body)
      return { ...told, type, processId: data.process_id, ...exitOf(data) }
    }
    case 'lease':
      return { ...told, type, leaseExpiresAt: new Date(EVENT_DATA.lease.parse(body).lease_expires_at) }
    case 'released':
      return { ...told, type }
    case 'port.exposed': {
      const { port, access, expires_at } = EVENT_DATA['port.exposed'].parse(body)
      return { ...told, type, port, access, expiresAt: expires_at === null ? null : new Date(expires_at) }
    }
    case 'port.withdrawn':
      return { ...told, type, ...EVENT_DATA['port.withdrawn'].parse(body) }
  }
}

const exitOf = (data: SessionEventData<'exec.exit'> | SessionEventData<'process.exit'>): EventExit => ({
  exitCode: data.exit_code,
  signal: data.signal,
  reason: data.reason,
  killCause: data.kill_cause,
  oomKilled: data.oom_killed,
  durationMs: data.duration_ms,
})
