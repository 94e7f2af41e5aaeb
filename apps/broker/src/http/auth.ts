import type { Holder, RateLimit } from '@boxoffice/node-http'
import { BoxofficeError } from '@boxoffice/protocol'
import { Credential } from '../access/credential.ts'
import type { Principal, Principals } from '../access/principals.ts'

/** A request's header by its name. */
export type HeaderOf = (name: string) => string | undefined

const BEARER = /^bearer +(\S+) *$/i

/** The one credential of a request: `Authorization: Bearer` or `X-Api-Key`; both only if they are equal [contract 2.1]. */
export function credentialOf(header: HeaderOf): Credential {
  const authorization = header('authorization')
  const apiKey = header('x-api-key')
  const bearer = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]
  if (authorization !== undefined && bearer === undefined) throw unauthenticated('Authorization must be: Bearer <API key>')
  if (bearer !== undefined && apiKey !== undefined && bearer !== apiKey)
    throw unauthenticated('Authorization and X-Api-Key carry different credentials; send one')
  const credential = bearer ?? apiKey
  if (credential === undefined || credential === '') throw unauthenticated('send Authorization: Bearer <API key>')
  return new Credential(credential, bearer === undefined ? 'x-api-key' : 'authorization')
}

/** The principal behind a request. */
export async function authenticate(header: HeaderOf, principals: Principals): Promise<Principal> {
  const credential = credentialOf(header)
  const identity = await principals.authenticate(credential.reveal())
  return { ...identity, credential, requireValid: () => principals.requireValid(credential.reveal()) }
}

/** Whose connection it is that the principal has authenticated on. */
export const holderOf = ({ tenant, id }: Principal): Holder => ({ tenant, principal: id })

/** Does what looks at a credential; one that is no good counts against the caller's address, whatever it was for [C-58]. */
export async function countFailures<T>(failures: RateLimit, address: string, look: () => T | Promise<T>): Promise<T> {
  try {
    return await look()
  } catch (thrown) {
    if (thrown instanceof BoxofficeError && thrown.code === 'UNAUTHENTICATED') failures.require(address, 'auth_failure')
    throw thrown
  }
}

export function requireOperator(principal: Principal): void {
  if (principal.role !== 'operator') throw new BoxofficeError('FORBIDDEN', 'this takes a key with the role "operator"')
}

const unauthenticated = (message: string): BoxofficeError => new BoxofficeError('UNAUTHENTICATED', message)
