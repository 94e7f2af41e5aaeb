import { newRequestId } from '@boxoffice/protocol'
import { Credential } from '../../access/credential.ts'
import { type Principal, ROOT_TENANT } from '../../access/principals.ts'
import type { AddressOf } from '../../http/address.ts'
import { requestIdOf } from '../../http/request-id.ts'
import { type Caller, type CallerOf, callerAs } from '../facade/callers.ts'

/** Everybody who reaches the listener is the same one [3-25]. */
const anyone: Principal = {
  id: 'sbs',
  tenant: ROOT_TENANT,
  role: 'user',
  rights: new Set(['release']),
  actorType: 'agent',
  capabilities: null,
  credential: new Credential('', 'authorization'),
}

export const anyCaller =
  (addressOf: AddressOf): CallerOf =>
  async (c) =>
    callerAs(anyone, addressOf(c), requestIdOf(c))

/** The server itself, for what it does at its end. */
export const ownCaller = (): Caller => callerAs(anyone, null, newRequestId())
