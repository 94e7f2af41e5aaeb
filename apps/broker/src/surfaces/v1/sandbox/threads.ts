import { ScopeId } from '@boxoffice/protocol'
import { validate } from '../../../http/body.ts'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'
import type { Threads } from '../../../sessions/threads.ts'

/** What the owner of a thread tells when the thread itself is deleted (contract 2.4). */
export const threadRoutes = (threads: Threads): AnyRoute[] => [
  defineRoute({
    method: 'DELETE',
    path: '/v1/sandbox/threads/:id',
    summary: 'Forget a thread that was deleted: its session, files, owner and members',
    auth: 'key',
    naming: 'mvp',
    responses: { 204: { description: 'Forgotten; whoever ensures the thread next owns it' } },
    async handle({ principal, id, origin }) {
      await threads.delete(principal, validate(ScopeId, id), origin)
      return { status: 204 }
    },
  }),
]
