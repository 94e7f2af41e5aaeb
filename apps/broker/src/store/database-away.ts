import { BoxofficeError } from '@boxoffice/protocol'

/** The database cannot answer now, or a transaction lost to others again and again: 503, and the work can be done again. */
export class DatabaseAway extends BoxofficeError {
  constructor(message: string, cause: Error) {
    super('BACKEND_UNAVAILABLE', message, { retryAfter: 1, cause })
  }
}
