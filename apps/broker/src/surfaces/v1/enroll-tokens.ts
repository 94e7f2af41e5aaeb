import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import { isRootOperator, type Principal } from '../../access/principals.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { Enrollment } from '../../registration/enrollment.ts'
import type { EnrollTokenRecord } from '../../store/store.ts'
import { Name } from './keys.ts'

const YEAR_SECONDS = 366 * 86_400

const CreateEnrollTokenRequest = z.object({
  name: Name,
  /** One install registers with it; that one may go on doing so. */
  one_use: z.boolean().default(false),
  /** For new installs; those that it has enrolled may go on registering with it. Default: no end. */
  expires_in_seconds: z.number().int().min(1).max(YEAR_SECONDS).nullable().default(null),
})

const EnrollToken = z.object({
  id: z.string(),
  name: z.string(),
  one_use: z.boolean(),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  /** When it enrolled an install last, and the agent id of that one. */
  used_at: z.string().nullable(),
  used_by: z.string().nullable(),
  revoked_at: z.string().nullable(),
})

/** Tokens by which installs register; for operators of the root tenant, since agents serve every tenant [C-50]. */
export const enrollTokenRoutes = (enrollment: Enrollment): AnyRoute[] => [
  defineRoute({
    method: 'POST',
    path: '/v1/enroll-tokens',
    summary: 'Make an enroll token for agents; it is shown only in this answer',
    auth: 'operator',
    body: CreateEnrollTokenRequest,
    responses: { 201: { description: 'The token', schema: EnrollToken.extend({ token: z.string() }) } },
    async handle({ principal, body, origin }) {
      requireRootOperator(principal)
      const { name, one_use: oneUse, expires_in_seconds: expiresInSeconds } = body
      const { record, token } = await enrollment.create({ name, oneUse, expiresInSeconds }, origin)
      return { status: 201, json: { ...toEnrollToken(record), token } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/enroll-tokens',
    summary: 'List enroll tokens, never the tokens themselves, nor the configured one',
    auth: 'operator',
    responses: { 200: { description: 'Newest first', schema: z.object({ enroll_tokens: z.array(EnrollToken) }) } },
    async handle({ principal }) {
      requireRootOperator(principal)
      return { status: 200, json: { enroll_tokens: (await enrollment.list()).map(toEnrollToken) } }
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/enroll-tokens/:id',
    summary: 'Revoke an enroll token: nobody registers with it any more; agents that are registered go on',
    auth: 'operator',
    responses: { 204: { description: 'Revoked' } },
    async handle({ principal, id, origin }) {
      requireRootOperator(principal)
      if (!(await enrollment.revoke(id, origin))) throw new BoxofficeError('NOT_FOUND', 'no such enroll token, or it is revoked already')
      return { status: 204 }
    },
  }),
]

function requireRootOperator(principal: Principal): void {
  if (!isRootOperator(principal)) throw new BoxofficeError('FORBIDDEN', 'enroll tokens are for operators of the root tenant')
}

const toEnrollToken = (record: EnrollTokenRecord): z.infer<typeof EnrollToken> => ({
  id: record.id,
  name: record.name,
  one_use: record.oneUse,
  created_at: new Date(record.createdAt).toISOString(),
  expires_at: timeOf(record.expiresAt),
  used_at: timeOf(record.usedAt),
  used_by: record.usedBy,
  revoked_at: timeOf(record.revokedAt),
})

const timeOf = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())
