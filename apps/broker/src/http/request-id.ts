import { requestIdFrom } from '@boxoffice/protocol'
import type { Context, HonoRequest, MiddlewareHandler } from 'hono'

const ids = new WeakMap<HonoRequest, string>()

/** The id of a request [4-163]: the one that it names, or a new one, which then stays the same. */
export const requestIdOf = (c: Context): string => {
  const id = ids.get(c.req) ?? requestIdFrom(c.req.header('x-request-id'))
  ids.set(c.req, id)
  return id
}

/** Puts `X-Request-Id` on every response of a surface that answers in its own words. */
export const requestIds: MiddlewareHandler = async (c, next) => {
  await next()
  c.header('x-request-id', requestIdOf(c))
}
