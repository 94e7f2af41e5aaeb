import { createHmac } from 'node:crypto'
import { CAPABILITIES, type Capability, type Scope } from '@boxoffice/protocol'
import { z } from 'zod'
import type { OutboundCall } from '../outbound/call.ts'
import type { Ownership } from '../store/session-store.ts'
import type { Authorizer } from './authorizer.ts'
import { remoteAuthorizer } from './remote-authorizer.ts'
import type { RemoteResponse, RemoteResponses } from './remote-responses.ts'

const SIGNATURE_HEADER = 'x-boxoffice-signature'

const WebhookResponse = z.object({
  allow: z.boolean(),
  /** Default: whoever ensures the scope first is its owner, everybody else a member. */
  role: z.enum(['owner', 'member']).nullish(),
  /** Default: all. Names that are not known are ignored [C-56]. */
  capabilities: z.array(z.string()).nullish(),
})

/**
 * Asks a configured URL: `POST {tenant, principal, scope, mode, relation}` → `{allow, role?, capabilities?}`. `relation` is what
 * the broker knows of the two, `owner`, `member` or null; the response alone decides [C-01].
 */
export function webhookAuthorizer(
  options: { url: string; secret: string; now: () => number },
  call: OutboundCall,
  answers: RemoteResponses,
): Authorizer {
  return remoteAuthorizer((principal, scope, ownership, mode) => {
    const relation = relationOf(principal.id, ownership)
    const question = { tenant: principal.tenant, principal: principal.id, scope: bare(scope), mode, relation }
    const body = JSON.stringify(question)
    return answers.get(`${body}${principal.credential.hash}`, async () => {
      const signature = sign(options.secret, body, Math.floor(options.now() / 1000))
      const headers = { 'content-type': 'application/json', accept: 'application/json', [SIGNATURE_HEADER]: signature }
      const { status, text } = await call({ method: 'POST', url: new URL(options.url), headers, body })
      if (status !== 200) throw new Error(`the webhook answered ${status}`)
      return toRemoteResponse(WebhookResponse.parse(JSON.parse(text)))
    })
  })
}

/** `t=<unix seconds>,v1=<hex>`: HMAC-SHA-256 by the shared secret over `<t>.<body>`; the time makes a kept request useless. */
const sign = (secret: string, body: string, seconds: number): string =>
  `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`

const bare = ({ type, id }: Scope): Scope => ({ type, id })

const relationOf = (principal: string, { owner, members }: Ownership): 'owner' | 'member' | null =>
  owner === principal ? 'owner' : members.includes(principal) ? 'member' : null

function toRemoteResponse({ allow, role, capabilities }: z.infer<typeof WebhookResponse>): RemoteResponse {
  if (!allow) return { allow }
  const known = (name: Capability): boolean => capabilities == null || capabilities.includes(name)
  return { allow, role: role ?? null, capabilities: CAPABILITIES.filter(known) }
}
