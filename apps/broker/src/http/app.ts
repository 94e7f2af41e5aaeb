import { isLoopback } from '@boxoffice/kit/is-loopback'
import { TokenBuckets } from '@boxoffice/kit/token-buckets'
import { markAuthenticated, type PrincipalLimit, type RateLimit } from '@boxoffice/node-http'
import { BoxofficeError, type ErrorNaming, fromUnknown, LIMITS } from '@boxoffice/protocol'
import { type Context, Hono } from 'hono'
import type { Principal, Principals } from '../access/principals.ts'
import { auditEntry, type Origin } from '../domain/audit-entry.ts'
import type { Log } from '../host/log.ts'
import type { Store } from '../store/store.ts'
import { type AddressOf, type Connection, clientAddress } from './address.ts'
import { authenticate, countFailures, credentialOf, holderOf, requireOperator } from './auth.ts'
import { readJson, validate } from './body.ts'
import { cors } from './cors.ts'
import type { Env } from './env.ts'
import { envelopeOf, reportRefusal } from './errors.ts'
import type { Metrics } from './metrics.ts'
import { requestIdOf } from './request-id.ts'
import type { AnyRoute, RouteResponse } from './route.ts'
import type { Surface } from './surface.ts'

export type AppOptions = {
  surfaces: readonly Surface[]
  principals: Principals
  store: Store
  authFailures: RateLimit
  /** Of every route with a principal. */
  controlLimit: PrincipalLimit
  metrics: Metrics
  corsOrigins: readonly string[]
  trustedProxies: readonly string[]
  log: Log
  now: () => number
  /** Milliseconds that never jump. */
  monotonic: () => number
}

/** Refusals in the audit log, per address: enough to see an attack, too few to fill the disk. */
const AUDITED_REFUSALS = { perSecond: 1, burst: 20 }

/** Mounts the surfaces; for their routes, everything that holds for each request is here, once: id, credential, body, refusal, metrics. */
export function createApp(options: AppOptions): Hono<Env> {
  const app = new Hono<Env>({ getPath: pathOf })
  const addressOf = clientAddress(options.trustedProxies)
  const refuse = refuser(options, addressOf)
  if (options.corsOrigins.length > 0) app.use(cors(options.corsOrigins))
  const routes = options.surfaces.flatMap((surface) => surface.routes ?? [])
  const mounts = options.surfaces.flatMap((surface) => surface.mounts ?? [])
  for (const route of routes) app.on(route.method, route.path, (c) => serve(c, route, options, addressOf, refuse))
  for (const [path, allow] of methodsByPath(routes))
    app.all(path, (c) => refuse(c, { error: methodNotAllowed(c.req.method, allow), requestId: requestIdOf(c), headers: { allow } }))
  for (const mount of mounts) app.mount(mount.path, (request, env) => mount.app.fetch(request, env as Connection))
  app.notFound((c) =>
    refuse(c, {
      error: new BoxofficeError('NOT_FOUND', `there is no route ${c.req.path.slice(0, 200)}; GET /openapi.json lists them`),
      requestId: requestIdOf(c),
    }),
  )
  app.onError((thrown, c) => refuse(c, { error: fromUnknown(thrown), requestId: requestIdOf(c) }))
  return app
}

async function serve(c: Context<Env>, route: AnyRoute, options: AppOptions, addressOf: AddressOf, refuse: Refuse): Promise<Response> {
  const started = performance.now()
  const requestId = requestIdOf(c)
  let naming: ErrorNaming = typeof route.naming === 'string' ? route.naming : 'full'
  let principal: Principal | null = null
  let response: Response
  try {
    const address = addressOf(c)
    const header = (name: string) => c.req.header(name)
    const known = await countFailures(options.authFailures, address, () => authorize(route, header, address, options.principals))
    principal = known.principal
    // Counted here and told below: what is wrong with a request is told first [C-19], but it is not for nothing.
    const limited = principal === null ? undefined : options.controlLimit.refusal(principal)
    await countFailures(options.authFailures, address, () => route.admit?.(known.credential, c.req.param('id') ?? ''))
    const socket = c.env?.incoming?.socket
    if (route.auth !== 'none' && socket !== undefined) markAuthenticated(socket, principal === null ? undefined : holderOf(principal))
    const rawBody = route.body === undefined ? undefined : await readJson(c.req, bodyLimit(route))
    if (typeof route.naming === 'function') naming = route.naming(rawBody)
    const body = route.body === undefined ? undefined : validate(route.body, rawBody)
    const query = route.query === undefined ? undefined : validate(route.query, c.req.query())
    if (principal !== null && route.auth !== 'key') requireOperator(principal)
    if (limited !== undefined) throw limited
    const answer = await route.handle({
      principal,
      credential: known.credential,
      body,
      rawBody,
      query,
      id: c.req.param('id') ?? '',
      param: (name) => c.req.param(name) ?? '',
      header,
      reauthenticate: async () => (await authorize(route, header, address, options.principals)).principal,
      origin: { requestId, tenant: principal?.tenant ?? null, caller: principal?.id ?? null, actor: principal?.id ?? null, ip: address },
    })
    response = responseOf(answer, requestId, c)
  } catch (thrown) {
    response = await refuse(c, { error: fromUnknown(thrown), requestId, naming, principal })
  }
  options.metrics.observe(route.method, route.path, response.status, (performance.now() - started) / 1000)
  return response
}

/** What agents report grows with their sandboxes; who they are is known before it is read. */
const bodyLimit = ({ auth, bodyBytes }: AnyRoute): number =>
  bodyBytes ?? (auth === 'enroll' || auth === 'agent' ? LIMITS.agentReportBytes : LIMITS.controlBodyBytes)

type Known = { principal: Principal | null; credential: string }

async function authorize(
  route: AnyRoute,
  header: (name: string) => string | undefined,
  address: string,
  principals: Principals,
): Promise<Known> {
  switch (route.auth) {
    case 'none':
      return { principal: null, credential: '' }
    case 'enroll':
    case 'agent':
      return { principal: null, credential: credentialOf(header).reveal() }
    case 'loopback':
      // A forwarded request only looks local.
      if (isLoopback(address) && header('x-forwarded-for') === undefined) return { principal: null, credential: '' }
      break
    case 'key':
    case 'operator':
  }
  return { principal: await authenticate(header, principals), credential: '' }
}

function responseOf({ status, json, text, stream, headers }: RouteResponse, requestId: string, c: Context<Env>): Response {
  const all: Record<string, string> = { 'x-request-id': requestId, 'cache-control': 'no-store', ...headers }
  if (stream !== undefined && c.req.method !== 'HEAD')
    return new Response(
      stream(() => c.env.outgoing?.destroy()),
      { status, headers: all },
    )
  if (json === undefined) return new Response(text ?? null, { status, headers: all })
  all['content-type'] = 'application/json'
  return new Response(JSON.stringify(json), { status, headers: all })
}

type Refusal = {
  error: BoxofficeError
  requestId: string
  /** Which of its two names the error shows; by default the full one. */
  naming?: ErrorNaming
  /** Who was refused, as far as it is known. */
  principal?: Principal | null
  headers?: Record<string, string>
}
type Refuse = (c: Context<Env>, refusal: Refusal) => Promise<Response>

function refuser({ log, metrics, store, now, monotonic }: AppOptions, addressOf: AddressOf): Refuse {
  const audited = new TokenBuckets(AUDITED_REFUSALS, monotonic)
  return async (c, { error, requestId, naming = 'full', principal = null, headers }) => {
    const address = addressOf(c)
    if ((error.status === 401 || error.status === 403) && audited.take(address).ok) {
      const origin: Origin = { requestId, tenant: principal?.tenant ?? null, caller: principal?.id ?? null, actor: null, ip: address }
      await store.audit
        .append([auditEntry('access.refused', origin, { ts: now(), outcome: 'refused', code: error.code })])
        .catch((thrown: unknown) => log.error({ err: thrown }, 'a refusal could not be audited'))
    }
    return reportRefusal({ error, requestId, rendered: envelopeOf(error, requestId, naming), headers }, { metrics, log })
  }
}

/** The path without one trailing slash [C-80]. */
function pathOf(request: Request): string {
  const { url } = request
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const end = url.indexOf('?', start)
  const path = end === -1 ? url.slice(start) : url.slice(start, end)
  // An encoded percent sign stays as it is: the router decodes parameters once more, and `%2F` in an id is not `/`.
  const decoded = path.includes('%') ? decodeOr(path.replaceAll('%25', '%2525')) : path
  return decoded.length > 1 && decoded.endsWith('/') ? decoded.slice(0, -1) : decoded
}

const decodeOr = (path: string): string => {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

function methodsByPath(routes: readonly AnyRoute[]): Map<string, string> {
  const methods = new Map<string, string[]>()
  for (const { path, method } of routes) methods.set(path, [...(methods.get(path) ?? []), method, ...(method === 'GET' ? ['HEAD'] : [])])
  return new Map([...methods].map(([path, names]) => [path, names.join(', ')]))
}

const methodNotAllowed = (method: string, allow: string): BoxofficeError =>
  new BoxofficeError('METHOD_NOT_ALLOWED', `method ${method.slice(0, 20)} is not allowed here; use ${allow}`)
