import type { BoxError } from '../box-error-store.ts'

/** As both databases have it. */
export type BoxErrorRow = { at: number; type: string; message: string; query_id: string | null }

export const toBoxError = ({ at, type, message, query_id: queryId }: BoxErrorRow): BoxError => ({ at, type, message, queryId })
