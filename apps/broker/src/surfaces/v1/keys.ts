import { BoxofficeError, Capability } from '@boxoffice/protocol'
import { z } from 'zod'
import type { KeyService } from '../../access/key-service.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { KeyRecord } from '../../store/store.ts'

/** What operators know something by. */
export const Name = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\x20-\x7e\u00a0-\u{10ffff}]+$/u, 'must not contain control characters')

export const CreateKeyRequest = z.object({
  name: Name,
  /** Whom the key stands for; several keys may stand for one. */
  principal: Name,
  tenant: Name.optional(),
  role: z.enum(['operator', 'user']).default('user'),
  rights: z.array(z.enum(['act_as', 'release', 'box'])).default([]),
  actor_type: z.enum(['human', 'agent']).default('human'),
  /** What its tokens may carry at most; default: whatever policy allows. */
  capabilities: z.array(Capability).nullable().default(null),
})

const Key = z.object({
  id: z.string(),
  name: z.string(),
  tenant: z.string(),
  principal: z.string(),
  role: z.enum(['operator', 'user']),
  rights: z.array(z.string()),
  capabilities: z.array(Capability).nullable(),
  actor_type: z.enum(['human', 'agent']),
  created_at: z.string(),
  revoked_at: z.string().nullable(),
})

/** API keys (contract 2.14); operators only. */
export const keyRoutes = (keys: KeyService): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/keys',
    summary: 'Make an API key; it is shown only in this answer',
    auth: 'operator',
    body: CreateKeyRequest,
    responses: { 201: { description: 'The key', schema: Key.extend({ key: z.string() }) } },
    async handle({ principal, body, origin }) {
      const { actor_type: actorType, tenant, ...fields } = body
      const { record, key } = await keys.create(principal, { ...fields, actorType, tenant: tenant ?? principal.tenant }, origin)
      return { status: 201, json: { ...toKey(record), key } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/keys',
    summary: 'List API keys, never the keys themselves',
    auth: 'operator',
    responses: { 200: { description: 'Newest first', schema: z.object({ keys: z.array(Key) }) } },
    async handle({ principal }) {
      return { status: 200, json: { keys: (await keys.list(principal)).map(toKey) } }
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/keys/:id',
    summary: 'Revoke an API key; it is refused within 2 s',
    auth: 'operator',
    responses: { 204: { description: 'Revoked' } },
    async handle({ principal, id, origin }) {
      if (!(await keys.revoke(principal, id, origin))) throw new BoxofficeError('NOT_FOUND', 'no such key, or it is revoked already')
      return { status: 204 }
    },
  }),
]

const toKey = (record: KeyRecord): z.infer<typeof Key> => ({
  id: record.id,
  name: record.name,
  tenant: record.tenant,
  principal: record.principal,
  role: record.role,
  rights: [...record.rights],
  capabilities: record.capabilities && [...record.capabilities],
  actor_type: record.actorType,
  created_at: new Date(record.createdAt).toISOString(),
  revoked_at: record.revokedAt === null ? null : new Date(record.revokedAt).toISOString(),
})
