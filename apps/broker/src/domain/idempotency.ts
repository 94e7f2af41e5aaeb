import { BoxofficeError } from '@boxoffice/protocol'

/** How long a key is kept [C-14]. */
export const IDEMPOTENCY_MS = 24 * 3600 * 1000

export const keyReused = (key: string): BoxofficeError =>
  new BoxofficeError('BINDING_CONFLICT', `Idempotency-Key "${key}" was used with a different request body; use a new key for a new request`)
