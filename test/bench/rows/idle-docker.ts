import { withCrowd } from '../crowd.ts'
import type { Needs, Row, RowContext } from './row.ts'

export const needs: Needs = { engine: true }

/** What the agent itself holds for each of sixty docker sandboxes that have nothing to do. */
export const run = (context: RowContext): Promise<Row[]> => withCrowd(context, { provider: 'docker', count: 60, atOnce: 6 })
