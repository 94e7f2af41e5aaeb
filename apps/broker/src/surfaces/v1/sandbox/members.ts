import { Members as MembersSchema } from '@boxoffice/protocol'
import { z } from 'zod'
import { type AnyRoute, defineRoute } from '../../../http/route.ts'
import type { Members } from '../../../sessions/members.ts'

const SetMembers = z.object({ principals: MembersSchema })
const Membership = z.object({ session_id: z.string(), owner: z.string(), principals: z.array(z.string()) })

/** Who else may use what a session is for (contract 2.8). */
export const memberRoutes = (members: Members): AnyRoute[] => [
  defineRoute({
    method: 'PUT',
    path: '/v1/sandbox/sessions/:id/members',
    summary: 'Say who else may use the thread of a session; who is left out loses its access',
    auth: 'key',
    body: SetMembers,
    responses: { 200: { description: 'The owner, and the members as they are now', schema: Membership } },
    async handle({ principal, id, body, origin }) {
      const { owner, members: principals } = await members.put(principal, id, body.principals, origin)
      return { status: 200, json: { session_id: id, owner, principals } }
    },
  }),
]
