import { expect, test } from 'vitest'
import { BUILT_IN_PROFILES, CAPABILITIES, CreateSandboxRequest, Profile, Revocations, SessionTokenClaims } from '../src/index.ts'

const LATER = [...CAPABILITIES, 'of_a_later_release']

test('an agent drops capabilities of a later release from a token', () => {
  const claims = {
    ...{ iss: 'i', aud: 's', sub: 'a', sid: 's', thread_id: null, sandbox_id: 's', tid: 't', gen: 1, iat: 1, exp: 2, jti: 'j', ver: 1 },
    caps: LATER,
  }
  expect(SessionTokenClaims.parse(claims).caps).toEqual(CAPABILITIES)
  expect(SessionTokenClaims.safeParse({ ...claims, caps: [7] }).success).toBe(false)
  expect(SessionTokenClaims.safeParse({ ...claims, caps: 'exec' }).success).toBe(false)
})

test('an agent drops them from what is left of a narrowed grant', () => {
  const grant = { session_id: 's', sub: 'a', caps: ['of_a_later_release', 'exec'], before: 1, until: 2 }
  const revocations = { sessions: [], tokens: [], grants: [grant] }
  expect(Revocations.parse(revocations).grants?.[0]?.caps).toEqual(['exec'])
})

test('an agent drops them from the profile of a sandbox; who writes a profile is told', () => {
  const profile = { ...BUILT_IN_PROFILES[0], capabilities: LATER }
  expect(CreateSandboxRequest.parse({ tenant_id: 't', profile, workspace_host_path: null }).profile.capabilities).toEqual(CAPABILITIES)
  expect(Profile.safeParse(profile).success).toBe(false)
})
