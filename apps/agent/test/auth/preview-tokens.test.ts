import { keyThumbprint } from '@boxoffice/node-http'
import { previewAudience } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { createAuthenticator } from '../../src/auth/auth.ts'
import { createKeySource } from '../../src/auth/keys.ts'
import { createRevocationStore } from '../../src/auth/revocations.ts'
import { AGENT_PUBLIC_KEY, createTestIssuer, ISSUER } from '../support/tokens.ts'

const SANDBOX = 'sb_one'
const HOST = `5173-${'a'.repeat(20)}.localhost`

const setUp = () => {
  const issuer = createTestIssuer({ sandboxId: SANDBOX, sessionId: 'ssn_one' })
  const now = (): number => Date.now() / 1000
  const auth = createAuthenticator({
    keys: createKeySource({ load: async () => issuer.jwks }),
    revocations: createRevocationStore(now),
    sandboxes: { get: () => undefined, isAwaited: () => false },
    issuer: () => ISSUER,
    thumbprint: keyThumbprint(AGENT_PUBLIC_KEY),
    now,
  })
  return { issuer, auth }
}

test('a preview token that has been seen is no session token, not even for a sandbox of the name of its host', async () => {
  const { issuer, auth } = setUp()
  const token = await issuer.sign({ aud: previewAudience(HOST) })
  expect(await auth.authenticatePreview(token, HOST)).toMatchObject({ sandbox_id: SANDBOX, caps: ['ports', 'exec'] })
  for (const id of [SANDBOX, previewAudience(HOST)])
    await expect(async () => auth.authenticate(token, id)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
})

test('a session token that has been seen is no preview token', async () => {
  const { issuer, auth } = setUp()
  const token = await issuer.sign()
  await auth.authenticate(token, SANDBOX)
  await expect(auth.authenticatePreview(token, HOST)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
})

test('a preview token is good on its own host', async () => {
  const { issuer, auth } = setUp()
  const token = await issuer.sign({ aud: previewAudience(HOST) })
  await expect(auth.authenticatePreview(token, HOST.replace('5173', '5174'))).rejects.toMatchObject({ code: 'FORBIDDEN' })
})
