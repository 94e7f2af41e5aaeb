import { z } from 'zod'
import { ExitReason, KillCause } from '../dataplane/exec.ts'
import { EgressFact } from './egress.ts'
import { PreviewAccess } from './previews.ts'
import { SessionState } from './sessions.ts'

/**
 * What happens to a session: `GET …/sessions/{id}/events`, as server-sent events (contract 2.4). `event` is the type, `id` rises
 * by one per session, `data` is `EventHeader` and the fields of the type. The stream ends after `released`, or after a `state`
 * that is an end without a release.
 */

/** A list longer than this loses its oldest; who resumes from before that gets a `gap` first. */
export const KEPT_EVENTS = 1000

const exit = {
  /** Null where nobody saw the end (`sandbox_lost`), or the stop of its sandbox took the process with it. */
  exit_code: z.number().int().nullable(),
  signal: z.string().nullable(),
  reason: ExitReason,
  kill_cause: KillCause.nullable(),
  oom_killed: z.boolean(),
  duration_ms: z.number().nonnegative().nullable(),
}

export const EVENT_DATA = {
  /** `mode` is how it is suspended, `reason` why it ended. */
  state: z.object({
    state: SessionState,
    previous: SessionState.nullable(),
    mode: z.enum(['freeze', 'stop']).nullable(),
    reason: z.string().nullable(),
  }),
  /** The sandbox runs again, after a freeze or a stop. */
  wake: z.object({ from: z.enum(['freeze', 'stop']) }),
  'exec.exit': z.object({
    kind: z.enum(['exec', 'shell']),
    /** By its kind one of the two. */
    exec_id: z.string().max(64).optional(),
    shell_id: z.string().max(64).optional(),
    ...exit,
  }),
  'process.exit': z.object({ process_id: z.string().max(64), ...exit }),
  lease: z.object({ lease_expires_at: z.string() }),
  /** A program of the sandbox connected somewhere through the proxy, or was refused. `times`: so often since the last such event. */
  egress: EgressFact,
  /** Another policy says where its programs may connect to: one of the session's own, or the profile's again. */
  'egress.changed': z.object({ source: z.enum(['profile', 'session']) }),
  released: z.object({}),
  /** A port has a host of its own, or its terms have changed. */
  'port.exposed': z.object({ port: z.number().int(), access: PreviewAccess, expires_at: z.string().nullable() }),
  /** It has none any more; the end of the session tells that of all. */
  'port.withdrawn': z.object({ port: z.number().int() }),
} as const

export type SessionEventType = keyof typeof EVENT_DATA
export type SessionEventData<T extends SessionEventType = SessionEventType> = z.infer<(typeof EVENT_DATA)[T]>
export const SESSION_EVENT_TYPES = Object.keys(EVENT_DATA) as SessionEventType[]

/** In every event's `data`. */
export const EventHeader = z.object({ session_id: z.string(), ts: z.string() })

/** `event: gap`, without an id: the events `from` to `to`, both included, are kept no longer, or were never told by the agent. */
export const GapEvent = z.object({ session_id: z.string(), from: z.number().int(), to: z.number().int() })

/** True for the last event of a stream. */
export const endsStream = (type: string, data: { state?: unknown; reason?: unknown }): boolean =>
  type === 'released' || (type === 'state' && (data.state === 'failed' || (data.state === 'terminated' && data.reason !== 'released')))
