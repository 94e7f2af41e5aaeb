import { BoxofficeError } from '@boxoffice/protocol'
import type { SupervisorLink } from '../supervisor/link.ts'
import { endError } from './end.ts'
import type { Sandbox } from './sandbox.ts'

/** How long the provider may take to say that the sandbox has died; it is seen within 5 s [4-95]. */
const VERDICT_WITHIN_MS = 5000

/**
 * Why a stream of this sandbox broke, which was on this link: after a stop the sandbox has none or another one. An end that was not observed is never made up [C-31]: either the sandbox is gone, which is
 * said as soon as it is known, or only the connection is, and then the process may live and can be attached to.
 */
export const whyBroken = (sandbox: Sandbox, link: SupervisorLink): Promise<BoxofficeError> =>
  new Promise((resolve) => {
    if (sandbox.lost !== undefined) return resolve(endError({ lost: true, reason: sandbox.lost.reason }))
    const settle = (error: BoxofficeError): void => {
      offEnd()
      clearTimeout(timer)
      resolve(error)
    }
    const offEnd = sandbox.onEnd((end) => settle(endError(end)))
    const timer = setTimeout(
      () =>
        settle(new BoxofficeError('BACKEND_UNAVAILABLE', 'The connection to the process broke; attach again by its id', { retryAfter: 1 })),
      link.connected ? 500 : VERDICT_WITHIN_MS,
    )
  })
