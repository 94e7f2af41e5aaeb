import { isFast } from '@boxoffice/node-http'

/** Fewer and parallel requests wait for dials; each costs the agent a descriptor. */
const SPARE = 6

/** How many idle channels the supervisor of a sandbox in use keeps dialled. One is the least: what waits is served by the next dial. */
export const sparesInUse = (): number => (isFast('spareChannels') ? SPARE : 1)
