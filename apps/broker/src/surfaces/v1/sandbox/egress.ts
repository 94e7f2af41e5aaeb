import { EgressPolicy, LIMITS, SessionEgress } from '@boxoffice/protocol'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'
import type { SessionEgressService } from '../../../sessions/session-egress.ts'

const EGRESS = '/v1/sandbox/sessions/:id/egress'

/** Where the programs of a session may connect to. */
export const egressRoutes = (egress: SessionEgressService): AnyRoute[] => [
  defineRoute({
    method: 'GET',
    path: EGRESS,
    summary: 'Say where the programs of a session may connect to',
    auth: 'key',
    responses: { 200: { description: 'The policy that holds now', schema: SessionEgress } },
    async handle({ principal, id }) {
      return { status: 200, json: await egress.read(principal, id) }
    },
  }),
  defineRoute({
    method: 'PUT',
    path: EGRESS,
    summary: 'Replace where the programs of a session may connect to; connections that are not allowed any more are cut',
    auth: 'key',
    body: EgressPolicy,
    bodyBytes: 2 * LIMITS.policyBytes,
    responses: { 200: { description: 'It holds', schema: SessionEgress } },
    async handle({ principal, id, body, origin }) {
      return { status: 200, json: await egress.set(principal, id, body, origin) }
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: EGRESS,
    summary: 'Let the policy of the profile hold again',
    auth: 'key',
    responses: { 200: { description: 'It holds', schema: SessionEgress } },
    async handle({ principal, id, origin }) {
      return { status: 200, json: await egress.set(principal, id, null, origin) }
    },
  }),
]
