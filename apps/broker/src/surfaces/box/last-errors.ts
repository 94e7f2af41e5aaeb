import { withTimeout } from '@boxoffice/kit/with-timeout'
import type { Log } from '../../host/log.ts'
import type { BoxError, BoxErrorStore } from '../../store/box-error-store.ts'

/** A failure as `/api/v1/box/errors` tells it [2-47]. */
export type BoxErrorEntry = { timestamp: string; type: string; message: string; query_id: string | null }

const KEPT = 50
const MESSAGE_LENGTH = 2000
/** A request that has failed waits for no longer until its failure is stored. */
const WAIT_MS = 1000

/** The last failures of each tenant [2-48], of all brokers. */
export class LastErrors {
  readonly #store: BoxErrorStore
  readonly #log: Log

  constructor({ boxErrors, log }: { boxErrors: BoxErrorStore; log: Log }) {
    this.#store = boxErrors
    this.#log = log
  }

  /** Never throws: the failure itself is told, whether it can be stored or not. */
  async add(tenant: string, { message, ...error }: BoxError): Promise<void> {
    const added = this.#store
      .add(tenant, { ...error, message: message.slice(0, MESSAGE_LENGTH) }, KEPT)
      .catch((thrown: unknown) => this.#log.warn({ err: thrown }, 'a failure of a Box request could not be stored'))
    await withTimeout(added, WAIT_MS, () => undefined)
  }

  /** Oldest first. */
  async of(tenant: string): Promise<BoxErrorEntry[]> {
    const errors = await this.#store.of(tenant)
    return errors.map(({ at, type, message, queryId }) => ({ timestamp: new Date(at).toISOString(), type, message, query_id: queryId }))
  }
}
