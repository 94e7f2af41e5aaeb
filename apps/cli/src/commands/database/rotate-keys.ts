import type { Broker } from '@boxoffice/broker'
import type { Logger } from 'pino'

/** Adds the next signing key [C-49]; tokens of the earlier ones stay good. */
export const rotateKeys = (broker: Broker, log: Logger): void => {
  broker.rotateKeys().then(
    () => log.info('SIGHUP: a new signing key is published; it signs once every agent can know it'),
    (err: unknown) => log.error({ err }, 'SIGHUP: no new signing key could be made'),
  )
}
