import { BoxofficeError, type Scope } from '@boxoffice/protocol'
import { isPlaced, type PlacedSession, type Session, type TerminatedSession } from './session.ts'

/** Why a session is not given out: the codes of contract 2.5, each in one place. */

export const noSession = (message = 'no such session'): BoxofficeError => new BoxofficeError('BINDING_NOT_FOUND', message)

export const forbidden = (scope: Scope): BoxofficeError =>
  new BoxofficeError('FORBIDDEN', `the caller may not use this ${scope.type}; its owner is somebody else`)

export const notTheOwner = (scope: Scope): BoxofficeError =>
  new BoxofficeError('FORBIDDEN', `members: only the owner of this ${scope.type} or an operator says who else may use it`)

/** 423 with what the caller needs to ask again [4-13]. */
export const starting = (session: Session): BoxofficeError =>
  new BoxofficeError('SANDBOX_STARTING', 'the sandbox is starting; ask again', {
    retryAfter: 2,
    details: { session_id: session.id, state: session.state },
  })

/** `create_only` where there is one [C-20 a]. */
export const exists = (session: Session): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', 'this scope has a live session; release it first, or call with mode "ensure" to use it', {
    details: { session_id: session.id, state: session.state },
  })

/** [C-20 d] */
export const stillEnding = (scope: Scope): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', `the earlier session of this ${scope.type} is still ending and holds its workspace; ask again`)

/** This broker was away while it made the sandbox; another took over, and the session has ended since [C-20 e]. */
export const superseded = (): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', 'another broker took over while this one was stopped, and the session has ended; ask again')

/** An expiry is news (410), a release was intended (404). */
export function ended(session: TerminatedSession): BoxofficeError {
  if (session.reason === 'released') return noSession()
  return new BoxofficeError('SESSION_EXPIRED', `the session has ended (${session.reason}); call with mode "ensure" to get a new one`, {
    details: { reason: session.reason },
  })
}

export function requirePlaced(session: Session): PlacedSession {
  if (isPlaced(session)) return session
  switch (session.state) {
    case 'provisioning':
      throw starting(session)
    case 'terminated':
      throw ended(session)
    case 'failed':
      throw new BoxofficeError('SESSION_EXPIRED', 'the session has failed; call with mode "ensure" to get a new one', {
        details: { reason: session.reason },
      })
  }
}

/** The session of a token, for whoever is at its dataplane. */
export function requireThere(session: Session | undefined): PlacedSession {
  if (session === undefined) throw released('released')
  if (isPlaced(session)) return session
  switch (session.state) {
    case 'provisioning':
      throw starting(session)
    case 'failed':
      throw new BoxofficeError('SANDBOX_LOST', 'the sandbox is gone; negotiate again', { details: { reason: session.reason } })
    case 'terminated':
      throw released(session.reason)
  }
}

const released = (reason: string): BoxofficeError =>
  new BoxofficeError('SESSION_RELEASED', 'the session of this token has ended; negotiate again', { details: { reason } })
