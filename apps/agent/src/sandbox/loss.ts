import { BoxofficeError } from '@boxoffice/protocol'
import type { Sandbox } from './sandbox.ts'

/** How long the provider may take to say that the sandbox has died; it is seen within 5 s [4-95]. */
const VERDICT_WITHIN_MS = 5000

const LOST = 'The sandbox is gone; negotiate again'

/**
 * Why a stream of this sandbox broke. An end that was not observed is never made up [C-31]: either the sandbox is gone, which is
 * said as soon as it is known, or only the connection is, and then the process may live and can be attached to.
 */
export const whyBroken = (sandbox: Sandbox): Promise<BoxofficeError> =>
  new Promise((resolve) => {
    if (sandbox.lost !== undefined) return resolve(new BoxofficeError('SANDBOX_LOST', LOST))
    const settle = (error: BoxofficeError): void => {
      offEnd()
      clearTimeout(timer)
      resolve(error)
    }
    const offEnd = sandbox.onEnd((end) =>
      settle(
        end.lost || end.reason === 'failed'
          ? new BoxofficeError('SANDBOX_LOST', LOST)
          : new BoxofficeError('SESSION_EXPIRED', 'The session has ended; negotiate again', { details: { reason: end.reason } }),
      ),
    )
    const timer = setTimeout(
      () =>
        settle(new BoxofficeError('BACKEND_UNAVAILABLE', 'The connection to the process broke; attach again by its id', { retryAfter: 1 })),
      sandbox.link.connected ? 500 : VERDICT_WITHIN_MS,
    )
  })
