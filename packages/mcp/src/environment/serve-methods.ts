import type { Server } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Broker } from '../base/broker.ts'
import { toProtocolError } from '../base/errors.ts'
import { acquire, heartbeat, type Method, perform, refresh, release } from './methods.ts'

/** Checked by the methods' own schemas, whose errors name the field and carry the envelope. */
const AnyParams = z.record(z.string(), z.unknown())
type AnyResult = { [field: string]: unknown }

/** Gives a server the JSON-RPC methods `environment/acquire | refresh | heartbeat | release` [4-173]. */
export const serveMethods = (server: Server, broker: Broker, report: (error: Error) => void): void => {
  const serve = <P extends object, R extends object>(method: Method<P, R>): void =>
    server.setRequestHandler(method.name, { params: AnyParams }, async ({ _meta, ...body }, context): Promise<AnyResult> => {
      try {
        return (await perform(method, body, broker, context)) as AnyResult
      } catch (thrown) {
        throw toProtocolError(thrown, report)
      }
    })
  serve(acquire)
  serve(refresh)
  serve(heartbeat)
  serve(release)
}
