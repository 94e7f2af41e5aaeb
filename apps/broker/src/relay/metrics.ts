import type { Metrics } from '../http/metrics.ts'

/** What the relay counts. */
export type RelayMetrics = Pick<Metrics, 'observe' | 'refused'>
