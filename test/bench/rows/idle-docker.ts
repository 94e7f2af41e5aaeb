import { withCrowd } from '../crowd.ts'
import type { Row, RowContext } from './row.ts'

/** What the agent itself holds for each of sixty docker sandboxes that have nothing to do. */
export const run = (context: RowContext): Promise<Row[]> => withCrowd(context, { provider: 'docker', count: 60, atOnce: 6 })
