import { z } from 'zod'
import { PortNumber, parsePort } from '../dataplane/ports.ts'
import { EGRESS_PORT } from './egress.ts'

/** Who may open a preview: whom the session's owner lets in, everybody of the tenant by a link of their own, or whoever has the URL. */
export const PREVIEW_ACCESS = ['private', 'tenant', 'public'] as const
export const PreviewAccess = z.enum(PREVIEW_ACCESS)
export type PreviewAccess = z.infer<typeof PreviewAccess>

/** What the program reads as its `Host`: `localhost:{port}`, which development servers take, or the preview host. */
export const PreviewHostMode = z.enum(['localhost', 'preserve'])
export type PreviewHostMode = z.infer<typeof PreviewHostMode>

/** Below it each exposed port has a host: a domain, with the port of its listener or without. */
export const PreviewDomain = z
  .string()
  .regex(/^(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}(?::\d{1,5})?$/, 'must be a domain in lower case, with a port or without')

export const PREVIEW_LIMITS = {
  /** Exposed ports of one session at once. */
  ports: 64,
  embedOrigins: 16,
  /** How long a link is good, in seconds. */
  linkSeconds: { min: 60, max: 600, fallback: 60 },
  /** How long the cookie is good that a link is exchanged for, in seconds, at most. */
  cookieSeconds: 3600,
  ttlSeconds: { min: 60, max: 30 * 24 * 3600 },
} as const

/** Where a browser exchanges a link, below the preview host. */
export const PREVIEW_ENTER_PATH = '/.well-known/boxoffice/enter'
/** The cookie that a link is exchanged for; the program behind the host never reads it. */
export const PREVIEW_COOKIE = '__Host-bx_preview'
/** The header by which a program shows a session token with the capability `ports`. */
export const PREVIEW_TOKEN_HEADER = 'x-boxoffice-preview-token'

/** A port that may be exposed: none of the system's lowest, and not the one of the sandbox's own way out. */
export const ExposablePort = PortNumber.refine((port) => port !== EGRESS_PORT, {
  error: `must not be ${EGRESS_PORT}: that is the sandbox's way out`,
})

/** An origin as browsers send it: scheme, host, and the port unless it is the scheme's own. */
const WebOrigin = z
  .string()
  .max(300)
  .refine((text) => URL.canParse(text) && new URL(text).origin === text && /^https?:/.test(text), {
    error: 'must be an origin such as https://app.example.com',
  })

export const ExposePortRequest = z.object({
  port: ExposablePort,
  access: PreviewAccess.default('private'),
  /** The port is exposed for so long; without it until the session ends. */
  ttl_seconds: z.number().int().min(PREVIEW_LIMITS.ttlSeconds.min).max(PREVIEW_LIMITS.ttlSeconds.max).optional(),
  host: PreviewHostMode.default('localhost'),
  /** Pages that may show the preview in a frame. */
  embed_origins: z.array(WebOrigin).max(PREVIEW_LIMITS.embedOrigins).default([]),
})
export type ExposePortRequest = z.infer<typeof ExposePortRequest>

/** An exposed port. `url` has no path; `expires_at` is null where it lasts as long as the session. */
export const ExposedPort = z.object({
  port: z.number().int(),
  url: z.string(),
  access: PreviewAccess,
  host: PreviewHostMode,
  embed_origins: z.array(z.string()),
  expires_at: z.string().nullable(),
})
export type ExposedPort = z.infer<typeof ExposedPort>

/** `listening`: where somebody listens now; null where the sandbox is suspended or could not be asked. */
export const ListExposedPortsResponse = z.object({ exposed: z.array(ExposedPort), listening: z.array(z.number().int()).nullable() })
export type ListExposedPortsResponse = z.infer<typeof ListExposedPortsResponse>

export const PortLinkRequest = z.object({
  ttl_seconds: z
    .number()
    .int()
    .min(PREVIEW_LIMITS.linkSeconds.min)
    .max(PREVIEW_LIMITS.linkSeconds.max)
    .default(PREVIEW_LIMITS.linkSeconds.fallback),
  /** Where the browser goes then, on the preview host. */
  path: z
    .string()
    .max(2048)
    .refine((path) => isReturnPath(path), { error: 'must be a path that starts with a single /' })
    .default('/'),
})
/** `url` has the code in its fragment: opening it in a browser exchanges it, fetching it does not. */
export const PortLinkResponse = z.object({ url: z.string(), expires_at: z.string() })

/** Whether a browser that goes there stays on its host. */
export const isReturnPath = (path: string): boolean => path.length <= 2048 && /^\/(?![/\\])[\x21-\x7e]*$/.test(path)

const PREVIEW_HOST = /^([1-9]\d{0,4})-([a-z2-7]{20})\.((?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63})(?::\d{1,5})?$/

/** The parts of a `Host` of a preview, `{port}-{label}.{domain}`, in lower case; undefined for every other host. */
export const parsePreviewHost = (host: string | undefined): { port: number; label: string; hostname: string } | undefined => {
  const match = host === undefined || host.length > 260 ? null : PREVIEW_HOST.exec(host.toLowerCase())
  if (match === null) return undefined
  const [, digits = '', label = '', domain = ''] = match
  const port = parsePort(digits)
  return port === undefined || port === EGRESS_PORT ? undefined : { port, label, hostname: `${digits}-${label}.${domain}` }
}

/** What an agent knows of one exposed port. */
export const PreviewRoute = z.object({
  label: z.string(),
  port: z.number().int(),
  /** Its origin, as browsers have it. */
  url: z.string(),
  access: PreviewAccess,
  host: PreviewHostMode,
  embed_origins: z.array(z.string()),
  /** Unix milliseconds by the broker's clock; null: none. */
  expires_at: z.number().nullable(),
  session_id: z.string(),
  tenant_id: z.string(),
  sandbox_id: z.string(),
  generation: z.number().int(),
})
export type PreviewRoute = z.infer<typeof PreviewRoute>

/** `PUT /control/v1/sandboxes/{id}/ports`: all that is exposed of the sandbox; what is not among it is no more. */
export const ReplacePreviews = z.object({ ports: z.array(PreviewRoute).max(PREVIEW_LIMITS.ports) })
export type ReplacePreviews = z.infer<typeof ReplacePreviews>

/** Agent to broker: what a host is, and the exchange of a code. `preview` is null for a host that is none, or none any more. */
export const PreviewQuery = z.object({ host: z.string().max(260) })
export const PreviewAnswer = z.object({ preview: PreviewRoute.nullable() })
export type PreviewAnswer = z.infer<typeof PreviewAnswer>
export const PreviewExchange = z.object({ host: z.string().max(260), code: z.string().max(128) })
/** A preview token, and for how long the cookie with it is good. */
export const PreviewGrant = z.object({ token: z.string(), max_age_seconds: z.number().int().positive() })
export type PreviewGrant = z.infer<typeof PreviewGrant>
/** Null for a code that is used, too old, or for another host. */
export const PreviewExchanged = z.object({ grant: PreviewGrant.nullable() })
export type PreviewExchanged = z.infer<typeof PreviewExchanged>

/** The claims of a preview token, which the cookie carries; good on one host for one incarnation of one sandbox. */
export const PreviewTokenClaims = z.object({
  iss: z.string(),
  /** `preview:` and the host, so that it is no session token anywhere. */
  aud: z.string().startsWith('preview:'),
  sub: z.string(),
  sid: z.string(),
  sandbox_id: z.string(),
  tid: z.string(),
  gen: z.number().int().nonnegative(),
  iat: z.number().int(),
  exp: z.number().int(),
  jti: z.string(),
  ver: z.literal(1),
  /** The key of the only agent that takes it. */
  cnf: z.object({ jkt: z.string() }).optional(),
})
export type PreviewTokenClaims = z.infer<typeof PreviewTokenClaims>

export const previewAudience = (hostname: string): string => `preview:${hostname}`
