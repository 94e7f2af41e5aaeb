import { readFile } from 'node:fs/promises'
import { BoxofficeError } from '@boxoffice/protocol'
import type { JWTPayload } from 'jose'
import { z } from 'zod'
import type { KubernetesAgents } from '../config/kubernetes-agents.ts'
import { outboundCall } from '../outbound/call.ts'
import { readJwks } from './jwt/read-jwks.ts'
import { type ReadKeys, RemoteKeys } from './jwt/remote-keys.ts'
import { RemoteTokens } from './jwt/remote-token.ts'

/** The agent of a node, as its cluster says. */
export type NodeAgent = { node: string; account: string }

/** What a token of a service account says of the pod that it was made for. */
const Bound = z.object({
  'kubernetes.io': z.object({
    namespace: z.string(),
    serviceaccount: z.object({ name: z.string() }),
    node: z.object({ name: z.string().min(1) }).optional(),
  }),
})

/** With which API servers sign; with a shared secret whoever checks could also sign. */
const ALGORITHMS = ['RS256', 'ES256', 'ES384', 'ES512']
const READ_MS = 5000

/** Verifies tokens of Kubernetes service accounts by the keys of their cluster [C-50]. */
export class NodeAgents {
  readonly #accounts: ReadonlySet<string>
  readonly #tokens: RemoteTokens

  constructor(settings: KubernetesAgents, now: () => number, monotonic: () => number) {
    const { issuer, audience, accounts } = settings
    const keys = new RemoteKeys('the Kubernetes cluster', keysOf(settings), monotonic)
    this.#accounts = new Set(accounts)
    this.#tokens = new RemoteTokens({
      ...{ issuer, audience: [audience], algorithms: ALGORITHMS, keys, now },
      name: 'the service account token',
    })
  }

  /** Which node's agent has the token. 401 for one that does not hold, 403 for one of another account or without its node. */
  async verify(token: string): Promise<NodeAgent> {
    const { account, node } = this.#boundTo(await this.#tokens.verify(token))
    if (!this.#accounts.has(account))
      throw notEnrolled(
        'service_account_not_allowed',
        `the service account ${account} is not one of this broker's kubernetes_agents.accounts`,
      )
    if (node === undefined)
      throw notEnrolled(
        'node_claim_missing',
        'the token names no node; it must be bound to a pod, by an API server of Kubernetes 1.32 or later',
      )
    return { account, node }
  }

  #boundTo(payload: JWTPayload): { account: string; node: string | undefined } {
    const parsed = Bound.safeParse(payload)
    if (!parsed.success) throw this.#tokens.refused('it has not the claims of a service account')
    const { namespace, serviceaccount, node } = parsed.data['kubernetes.io']
    if (payload.sub !== `system:serviceaccount:${namespace}:${serviceaccount.name}`)
      throw this.#tokens.refused('its subject is another account than its claims')
    return { account: `${namespace}/${serviceaccount.name}`, node: node?.name }
  }
}

/** The operator has named the place, and it is inside the cluster, so it may be a private address. */
function keysOf({ jwksUrl, jwksFile, caFile, tokenFile }: KubernetesAgents): ReadKeys {
  const text = (path: string | undefined) => (path === undefined ? undefined : async () => (await readFile(path, 'utf8')).trim())
  return jwksUrl === undefined
    ? () => readFile(jwksFile ?? '', 'utf8')
    : readJwks(jwksUrl, outboundCall('any', READ_MS, text(caFile)), text(tokenFile))
}

const notEnrolled = (reason: string, message: string): BoxofficeError => new BoxofficeError('FORBIDDEN', message, { details: { reason } })
