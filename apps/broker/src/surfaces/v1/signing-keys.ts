import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import { isRootOperator } from '../../access/principals.ts'
import type { KeyRotation } from '../../agents/key-rotation.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'

const RotateRequest = z.object({
  /** For a leaked key: the present ones are withdrawn at once, and open sockets have to bring another token. */
  now: z.boolean().default(false),
})

const Rotated = z.object({
  /** The key that signs from now on; null while the next one waits until every agent can know it. */
  kid: z.string().nullable(),
  withdrawn: z.array(z.string()),
  agents_told: z.number().int(),
  /** They hear of it with the answer to their next report. */
  agents_not_reached: z.array(z.string()),
})

/** The keys that sign session tokens; for operators of the root tenant, since they are those of every tenant. */
export const signingKeyRoutes = (rotation: KeyRotation): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/signing-keys/rotate',
    summary: 'Rotate the keys that sign session tokens; with now, withdraw the present ones at once',
    auth: 'operator',
    body: RotateRequest,
    responses: { 200: { description: 'What signs now, and who knows of it', schema: Rotated } },
    async handle({ principal, body, origin }) {
      if (!isRootOperator(principal)) throw new BoxofficeError('FORBIDDEN', 'the signing keys are for operators of the root tenant')
      if (!body.now) {
        await rotation.plan(origin)
        return { status: 200, json: { kid: null, withdrawn: [], agents_told: 0, agents_not_reached: [] } }
      }
      const { kid, withdrawn, agentsTold, agentsNotReached } = await rotation.replace(origin)
      return { status: 200, json: { kid, withdrawn, agents_told: agentsTold, agents_not_reached: agentsNotReached } }
    },
  }),
]
