import { isLoopback } from '@boxoffice/kit/is-loopback'
import { z } from 'zod'

/** The certificate of a JWKS URL says whose keys they are, so only this machine's own may come without. */
const jwksUrl = z
  .url({ protocol: /^https?$/, error: 'must be an https:// URL' })
  .refine((url) => url.startsWith('https:') || isLoopback(new URL(url).hostname), 'must be an https:// URL')

/** Agents that enroll by the token of their Kubernetes service account, bound to the node of their pod. */
export const KubernetesAgents = z
  .strictObject({
    issuer: z.string().min(1).describe("issuer of the cluster's tokens, as its API server has it in --service-account-issuer"),
    audience: z.string().min(1).default('boxoffice').describe('audience for which the tokens are made'),
    accounts: z
      .array(z.string().regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?\/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, 'must be NAMESPACE/NAME'))
      .min(1)
      .describe('service accounts of agents, namespace/name'),
    jwksUrl: jwksUrl
      .optional()
      .describe("URL of the cluster's public keys, as https://kubernetes.default.svc/openid/v1/jwks; or jwks_file"),
    jwksFile: z.string().min(1).optional().describe('file with those keys'),
    caFile: z
      .string()
      .min(1)
      .optional()
      .describe('PEM file of who has signed the certificate of that URL; default: those that Node trusts'),
    tokenFile: z.string().min(1).optional().describe('file of the bearer token for that URL, read each time; default: none'),
  })
  .refine((settings) => (settings.jwksUrl === undefined) !== (settings.jwksFile === undefined), {
    path: ['jwksUrl'],
    error: 'needs jwks_url or jwks_file, and not both',
  })
export type KubernetesAgents = z.output<typeof KubernetesAgents>
