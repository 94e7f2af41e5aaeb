import type { AuthOkFrame, Capability, SessionTokenClaims } from '@boxoffice/protocol'

/** What a client is told whose token is good. */
export const authOk = (claims: SessionTokenClaims, granted: readonly Capability[]): AuthOkFrame => ({
  type: 'auth_ok',
  session_id: claims.sid,
  sandbox_id: claims.sandbox_id,
  expires_at: new Date(claims.exp * 1000).toISOString().replace('.000Z', 'Z'),
  granted_capabilities: [...granted],
})
