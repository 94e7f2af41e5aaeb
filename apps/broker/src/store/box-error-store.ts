/** A failure of a request to the Box surface, as its front ends are told of it. `at` in milliseconds. */
export type BoxError = { at: number; type: string; message: string; queryId: string | null }

/** The last failures of each tenant on the Box surface. */
export interface BoxErrorStore {
  /** Adds one; of more than `most` of its tenant the oldest go, and so do those of tenants that have had none for the longest. */
  add(tenant: string, error: BoxError, most: number): Promise<void>
  /** The tenant's, oldest first. */
  of(tenant: string): Promise<BoxError[]>
}

/** Rows of all tenants at most; what is older than the last ones goes. */
export const MAX_BOX_ERRORS = 50_000
