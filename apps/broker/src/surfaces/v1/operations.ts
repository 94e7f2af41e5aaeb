import { BoxofficeError, Jwks } from '@boxoffice/protocol'
import { z } from 'zod'
import type { Metrics } from '../../http/metrics.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { SigningKeys } from '../../tokens/keys.ts'

export type Operations = {
  keys: SigningKeys
  metrics: Metrics
  /** Why the broker cannot serve now, and what does not work while it can. */
  readiness(): Promise<{ reasons: string[]; warnings: string[] }>
}

/** What load balancers, agents and monitoring ask for (contract 2.14). */
export const operationRoutes = ({ keys, metrics, readiness }: Operations): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: '/.well-known/jwks.json',
    summary: 'Public keys of the session tokens',
    auth: 'none',
    responses: { 200: { description: 'Ed25519 keys, old and new during a rotation', schema: Jwks } },
    async handle() {
      await keys.reload()
      return { status: 200, json: keys.jwks, headers: { 'cache-control': 'public, max-age=300' } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/healthz',
    summary: 'The process serves',
    auth: 'none',
    responses: { 200: { description: 'Alive', schema: z.object({ status: z.literal('ok') }) } },
    handle: () => ({ status: 200, json: { status: 'ok' } }),
  }),
  defineRoute({
    method: 'GET',
    path: '/readyz',
    summary: 'Store, keys, a provider and the way to it are ready; else 503 with details.reasons',
    auth: 'none',
    responses: {
      200: { description: 'Ready', schema: z.object({ status: z.literal('ready'), warnings: z.array(z.string()).optional() }) },
    },
    async handle() {
      const { reasons, warnings } = await readiness()
      if (reasons.length > 0) throw new BoxofficeError('BACKEND_UNAVAILABLE', `not ready: ${reasons.join('; ')}`, { details: { reasons } })
      return { status: 200, json: { status: 'ready', ...(warnings.length > 0 ? { warnings } : {}) } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/metrics',
    summary: 'Prometheus metrics; from loopback, or with an operator key',
    auth: 'loopback',
    responses: { 200: { description: 'Prometheus text', contentType: 'text/plain' } },
    async handle() {
      return { status: 200, text: await metrics.text(), headers: { 'content-type': metrics.contentType } }
    },
  }),
]
