import { PrincipalLimit, type Rate } from '@boxoffice/node-http'
import type { SessionTokenClaims } from '@boxoffice/protocol'

/** Off where they are not set [C-58]. */
export type DataplaneRates = {
  execPerPrincipal?: Rate | undefined
  execPerTenant?: Rate | undefined
  wsOpenPerPrincipal?: Rate | undefined
  wsOpenPerTenant?: Rate | undefined
}

/** How often one actor, and one tenant, may do what costs something. Both throw RATE_LIMITED. */
export interface DataplaneLimits {
  /** Starts a command, or attaches to one by saying it again. */
  exec(claims: SessionTokenClaims): void
  /** Opens a socket; a renewal of its token is none. */
  wsOpen(claims: SessionTokenClaims): void
}

export const createDataplaneLimits = (rates: DataplaneRates, now: () => number = () => performance.now()): DataplaneLimits => {
  const exec = new PrincipalLimit('exec', { principal: rates.execPerPrincipal, tenant: rates.execPerTenant }, now)
  const wsOpen = new PrincipalLimit('ws_open', { principal: rates.wsOpenPerPrincipal, tenant: rates.wsOpenPerTenant }, now)
  return {
    exec: ({ tid, sub }) => exec.require({ tenant: tid, id: sub }),
    wsOpen: ({ tid, sub }) => wsOpen.require({ tenant: tid, id: sub }),
  }
}
