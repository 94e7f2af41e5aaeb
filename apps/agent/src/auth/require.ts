import type { Capability, SessionTokenClaims } from '@boxoffice/protocol'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Authenticator } from './auth.ts'

/**
 * Throws CAPABILITY_DENIED unless the token grants the capability in this sandbox. Without isolation its loopback is the host's: who may
 * not run commands there does not connect there either.
 */
export const requireIn = (
  auth: Pick<Authenticator, 'require'>,
  { isolation }: Pick<Sandbox, 'isolation'>,
  claims: SessionTokenClaims,
  capability: Capability,
): void => {
  auth.require(claims, capability)
  if (capability === 'ports' && isolation === 'none') auth.require(claims, 'exec')
}
