import { PreviewAnswer, PreviewExchange, PreviewExchanged, PreviewQuery } from '@boxoffice/protocol'
import { z } from 'zod'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { PreviewRoutes } from '../../previews/routes.ts'
import type { AgentRegistry } from '../../registration/registry.ts'

/** What agents, and servers that get certificates when they are needed, ask of preview hosts. */
export const previewRoutes = (previews: PreviewRoutes, registry: Pick<AgentRegistry, 'requireAgent'>): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/agents/:id/previews/find',
    summary: 'Say what a preview host of the agent is; the credential is the agent token',
    auth: 'agent',
    admit: (credential, id) => registry.requireAgent(id, credential).then(() => {}),
    body: PreviewQuery,
    responses: { 200: { description: 'The preview; null for a host that is none', schema: PreviewAnswer } },
    async handle({ id, body }) {
      return { status: 200, json: { preview: await previews.forAgent(id, body.host) } }
    },
  }),
  defineRoute({
    method: 'POST',
    path: '/v1/agents/:id/previews/enter',
    summary: "Exchange the code of a preview's link, once; the credential is the agent token",
    auth: 'agent',
    admit: (credential, id) => registry.requireAgent(id, credential).then(() => {}),
    body: PreviewExchange,
    responses: { 200: { description: 'The token of a cookie; null for a code that is no good', schema: PreviewExchanged } },
    async handle({ id, body, origin }) {
      return { status: 200, json: { grant: await previews.enter(id, body.host, body.code, origin) } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/internal/tls-ask',
    summary: 'Say whether there is a preview of this name, so that a certificate may be got for it',
    auth: 'none',
    query: z.object({ domain: z.string().max(260) }),
    responses: { 200: { description: 'There is' }, 404: { description: 'There is none' } },
    async handle({ query }) {
      return { status: (await previews.find(query.domain)) === undefined ? 404 : 200 }
    },
  }),
]
