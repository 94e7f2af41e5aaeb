import type { Metrics } from '../metrics.ts'

/** What the relay counts. */
export type RelayMetrics = Pick<Metrics, 'observe' | 'refused'>
