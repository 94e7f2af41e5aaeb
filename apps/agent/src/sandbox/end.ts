import { BoxofficeError, type KillCause } from '@boxoffice/protocol'
import type { Sandbox } from './sandbox.ts'

/** What `onEnd` tells. */
export type End = Parameters<Parameters<Sandbox['onEnd']>[0]>[0]
export type EndReason = Extract<End, { lost: false }>['reason']

/** The end of one making of a sandbox; its session goes on with another under the same id [C-23]. */
export const REMADE = 'remade'

/** The end of a sandbox with its agent; its session has lost it. */
export const AGENT_STOPPED = 'agent_stopped'

export type EndCause = EndReason | typeof REMADE | typeof AGENT_STOPPED

/** What processes that the end kills have as their cause. */
export const KILL_CAUSES: Record<EndCause, KillCause> = {
  released: 'released',
  hard_ttl: 'expired',
  lease: 'expired',
  idle: 'expired',
  failed: 'closed',
  [REMADE]: 'stopped',
  [AGENT_STOPPED]: 'shutdown',
}

export const lostError = (reason: string): BoxofficeError =>
  new BoxofficeError('SANDBOX_LOST', `The sandbox is gone (${reason}); negotiate again`)

/** While the provider has not listed what an earlier run of the agent left. */
export const recoveringError = (): BoxofficeError =>
  new BoxofficeError('BACKEND_UNAVAILABLE', 'the agent is looking for the sandboxes of its earlier run; try again', {
    retryAfter: 2,
    details: { reason: 'agent_recovering' },
  })

/** What `onEnd` tells of this cause. */
export const endOf = (cause: EndCause): End =>
  cause === REMADE || cause === AGENT_STOPPED ? { lost: true, reason: cause } : { lost: false, reason: cause }

/** What work is refused with, or broke of, when its sandbox ends so. */
export const endError = (end: End): BoxofficeError =>
  end.lost || end.reason === 'failed'
    ? new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again')
    : new BoxofficeError('SESSION_EXPIRED', 'The session has ended; negotiate again', { details: { reason: end.reason } })

export const startingError = (cause?: unknown): BoxofficeError =>
  new BoxofficeError('SANDBOX_STARTING', 'The sandbox is starting; try again', { retryAfter: 1, cause })
