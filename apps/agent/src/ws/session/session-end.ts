import { BoxofficeError } from '@boxoffice/protocol'

/** What a socket is told when its session ends under it. */
export const sessionEnded = (reason: string): BoxofficeError =>
  new BoxofficeError('SESSION_RELEASED', 'The session has ended; negotiate again', { details: { reason } })

export const sandboxGone = (): BoxofficeError => new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again')
