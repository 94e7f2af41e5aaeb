import { BoxofficeError, LIMITS, ListSecretsResponse, SecretInfo, SecretName, SetSecretRequest } from '@boxoffice/protocol'
import { z } from 'zod'
import { validate } from '../../http/body.ts'
import { decodeCursor, pageOf } from '../../http/cursor.ts'
import { type AnyRoute, defineRoute } from '../../http/route.ts'
import type { SecretService } from '../../secrets/secret-service.ts'
import type { SecretRecord } from '../../store/secret-store.ts'

const ListQuery = z.object({ limit: z.coerce.number().int().min(1).max(1000).default(100), cursor: z.string().max(300).optional() })

/** A character may take six bytes of JSON; the rest is for the description. */
const BODY_BYTES = 6 * LIMITS.secretBytes + 8 * 1024

/** Secrets that rules of egress inject; operators set those of their own tenant, and nobody reads a value. */
export const secretRoutes = (secrets: SecretService): AnyRoute[] => [
  defineRoute({
    method: 'PUT',
    path: '/v1/secrets/:id',
    summary: 'Set a secret by its name; the value is never shown again',
    auth: 'operator',
    body: SetSecretRequest,
    bodyBytes: BODY_BYTES,
    responses: {
      200: { description: 'There was one: this is its next version', schema: SecretInfo },
      201: { description: 'The first of its name', schema: SecretInfo },
    },
    async handle({ principal, id, body, origin }) {
      const { secret, made } = await secrets.set(principal.tenant, nameOf(id), body, origin)
      return { status: made ? 201 : 200, json: toInfo(secret) }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/secrets',
    summary: 'List secrets, never their values',
    auth: 'operator',
    query: ListQuery,
    responses: { 200: { description: 'One page, in the order of the names', schema: ListSecretsResponse } },
    async handle({ principal, query }) {
      const after = query.cursor === undefined ? null : String(decodeCursor(query.cursor, ['string'])[0])
      const { page, next_cursor } = pageOf(await secrets.list(principal.tenant, after, query.limit + 1), query.limit, ({ name }) => [name])
      return { status: 200, json: { secrets: page.map(toInfo), next_cursor } }
    },
  }),
  defineRoute({
    method: 'GET',
    path: '/v1/secrets/:id',
    summary: 'What there is to know of a secret, by its name; never its value',
    auth: 'operator',
    responses: { 200: { description: 'The secret', schema: SecretInfo } },
    async handle({ principal, id }) {
      const secret = await secrets.find(principal.tenant, nameOf(id))
      if (secret === undefined) throw noSecret()
      return { status: 200, json: toInfo(secret) }
    },
  }),
  defineRoute({
    method: 'DELETE',
    path: '/v1/secrets/:id',
    summary: 'Remove a secret by its name',
    auth: 'operator',
    responses: { 204: { description: 'Removed' } },
    async handle({ principal, id, origin }) {
      if (!(await secrets.remove(principal.tenant, nameOf(id), origin))) throw noSecret()
      return { status: 204 }
    },
  }),
]

const Path = z.object({ name: SecretName })

const nameOf = (id: string): string => validate(Path, { name: id }).name

const noSecret = (): BoxofficeError => new BoxofficeError('NOT_FOUND', 'no such secret')

const toInfo = (secret: SecretRecord): SecretInfo => ({
  name: secret.name,
  version: secret.version,
  description: secret.description,
  created_at: new Date(secret.createdAt).toISOString(),
  created_by: secret.createdBy,
  updated_at: new Date(secret.updatedAt).toISOString(),
})
