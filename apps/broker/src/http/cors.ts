import type { MiddlewareHandler } from 'hono'

/** Lets browsers of the listed origins call; everybody else gets no CORS header and so no response in a browser [C-69]. */
export function cors(origins: readonly string[]): MiddlewareHandler {
  const allowed = new Set(origins)
  return async function corsHeaders(c, next) {
    const origin = c.req.header('origin')
    if (origin === undefined || !allowed.has(origin)) return next()
    if (c.req.method === 'OPTIONS') return new Response(null, { status: 204, headers: { ...headersFor(origin), ...PREFLIGHT } })
    await next()
    for (const [name, value] of Object.entries(headersFor(origin))) c.res.headers.set(name, value)
  }
}

const headersFor = (origin: string) => ({
  'access-control-allow-origin': origin,
  'access-control-expose-headers': 'X-Request-Id, Retry-After, Idempotent-Replayed',
  vary: 'Origin',
})

const PREFLIGHT = {
  'access-control-allow-methods': 'GET, POST, PUT, DELETE',
  'access-control-allow-headers': 'Authorization, X-Api-Key, Content-Type, Idempotency-Key, Prefer, Last-Event-ID, X-Request-Id',
  'access-control-max-age': '600',
}
