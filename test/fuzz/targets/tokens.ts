import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import { createAuthenticator } from '../../../apps/agent/src/auth/auth.ts'
import { createControlVerifier } from '../../../apps/agent/src/auth/control-auth.ts'
import { createKeySource } from '../../../apps/agent/src/auth/keys.ts'
import { createRevocationStore } from '../../../apps/agent/src/auth/revocations.ts'
import { createTokenBinding } from '../../../apps/agent/src/auth/token-binding.ts'
import { createTestIssuer, ISSUER } from '../../../apps/agent/test/support/tokens.ts'
import { sessionTokenVerifier } from '../../../apps/broker/src/tokens/verifier.ts'
import { BoxofficeError } from '../../../packages/protocol/src/index.ts'
import { mutated } from '../mutate.ts'
import type { Random } from '../random.ts'
import type { FuzzTarget } from '../target.ts'

export const AGENT_ID = 'agt_fuzz'
const sandboxId = 'sbx_fuzz'
/** The same in each run, so that an input is the same as well: an Ed25519 key whose secret is 32 times 7. */
const privateKey = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]),
  ...{ format: 'der', type: 'pkcs8' },
})
const keyPair = { privateKey, publicKey: createPublicKey(privateKey) }
export const issuer = createTestIssuer({ sandboxId, sessionId: 'ssn_fuzz' }, keyPair)
/** The clock stands still: no token runs out. */
export const START = 1_800_000_000
const now = (): number => START
const keys = createKeySource({ load: () => Promise.resolve(issuer.jwks) })
keys.seed(issuer.jwks)

const agent = createAuthenticator({
  ...{ keys, now },
  revocations: createRevocationStore(now),
  sandboxes: { get: () => undefined, isAwaited: () => false },
  issuer: () => ISSUER,
  thumbprint: '',
})
const relay = sessionTokenVerifier({
  keys: { jwks: issuer.jwks, reload: async () => {}, wasWithdrawn: () => false },
  issuer: () => ISSUER,
  now: () => START * 1000,
})
const control = createControlVerifier({ keys, now, issuer: () => ISSUER, agentId: () => AGENT_ID, binding: createTokenBinding('') })

/** True when it was accepted; anything but a refusal in our own words is a crash. */
const accepts = async (verify: () => unknown): Promise<boolean> => {
  try {
    await verify()
    return true
  } catch (thrown) {
    assert(thrown instanceof BoxofficeError && thrown.code === 'UNAUTHENTICATED', thrown as Error)
    return false
  }
}

export const acceptedBy = {
  agent: (token: string): Promise<boolean> => accepts(() => agent.authenticate(token, sandboxId)),
  relay: (token: string): Promise<boolean> => accepts(() => relay(token)),
  control: (token: string): Promise<boolean> => accepts(() => control(token)),
}

const SESSION_TOKEN = await issuer.sign({ iat: START, exp: START + 3000, jti: 'fuzz' })
const CONTROL_TOKEN = await issuer.sign({ iss: ISSUER, aud: AGENT_ID, sub: 'broker', iat: START, exp: START + 60, jti: 'fuzz' })

const WORDS = ['.', '=', '+', '/', ' ', '\n', '\t', '\0', 'é', '😀', 'A', '_', '-', 'Q==']
const VALUES = [
  'null',
  '0',
  '[]',
  '{}',
  '"x"',
  '{"alg":"none"}',
  '{"alg":"EdDSA","kid":1}',
  '{"iss":"x","exp":1e99}',
  '{"__proto__":{"iat":0}}',
]

const withPart = (token: string, part: number, by: Buffer): string =>
  token
    .split('.')
    .map((old, i) => (i === part ? by.toString('base64url') : old))
    .join('.')

const spelling = (random: Random, token: string): string => {
  switch (random.below(6)) {
    case 0:
      return withPart(token, random.below(2), Buffer.from(random.of(VALUES)))
    case 1:
      return withPart(token, 2, random.bytes(random.below(80)))
    case 2:
      return token.slice(0, -1) + random.of([...'AEIMQUYcgkosw048-_=', ' '])
    default:
      return mutated(random, Buffer.from(token), WORDS).toString()
  }
}

/** Of all spellings of a token each verifier takes the one that was signed for it. */
export default {
  generate: (random) => Buffer.from(spelling(random, random.of([SESSION_TOKEN, CONTROL_TOKEN]))),
  async check(input) {
    const token = input.toString()
    const accepted = [await acceptedBy.agent(token), await acceptedBy.relay(token), await acceptedBy.control(token)]
    const [isSession, isControl] = [token === SESSION_TOKEN, token === CONTROL_TOKEN]
    assert.deepEqual(accepted, [isSession, isSession, isControl])
    return isSession || isControl
  },
} satisfies FuzzTarget
