import { createPrivateKey } from 'node:crypto'
import { expect, test } from 'vitest'
import { createAuthenticator } from '../../apps/agent/src/http/auth.ts'
import { createControlVerifier } from '../../apps/agent/src/http/control-auth.ts'
import { createKeySource } from '../../apps/agent/src/http/keys.ts'
import { createRevocationStore } from '../../apps/agent/src/http/revocations.ts'
import { createTokenBinding } from '../../apps/agent/src/uplink/token-binding.ts'
import { createTestIssuer, ISSUER } from '../../apps/agent/test/support/tokens.ts'
import { TokenIssuer } from '../../apps/broker/src/tokens/issuer.ts'
import { sessionTokenVerifier } from '../../apps/broker/src/tokens/verifier.ts'
import { BoxofficeError, newSandboxId, newSessionId } from '../../packages/protocol/src/index.ts'

const RUNS = 20_000
const SEED = 10
const AGENT_ID = 'agt_fuzz'
const sandboxId = newSandboxId()
const issuer = createTestIssuer({ sandboxId, sessionId: newSessionId() })
/** The clock stands still: on a busy machine no token runs out. */
const START = Math.floor(Date.now() / 1000)
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

const broker = new TokenIssuer(
  {
    current: {
      ...{ kid: issuer.kid, activeAt: 0, jwk: issuer.jwks.keys[0] as never },
      privateKey: createPrivateKey(issuer.privateKey.export({ format: 'pem', type: 'pkcs8' })),
    },
  },
  600,
  () => START * 1000,
)
broker.issuer = ISSUER

/** True when it was accepted; anything but a refusal in our own words is a crash. */
const accepts = async (verify: () => unknown): Promise<boolean> => {
  try {
    await verify()
    return true
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(BoxofficeError)
    expect((thrown as BoxofficeError).code).toBe('UNAUTHENTICATED')
    return false
  }
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const CHARACTERS = [...ALPHABET, '.', '=', '+', '/', ' ', '\n', '\t', '\0', 'é', '😀']
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

/** Numbers in [0, 1) that are the same in each run (mulberry32). */
const randomFrom = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const random = randomFrom(SEED)
const below = (limit: number): number => Math.floor(random() * limit)
const oneOf = (choices: readonly string[]): string => choices[below(choices.length)] ?? ''
const text = (length: number): string => Array.from({ length }, () => oneOf(CHARACTERS)).join('')

const replaced = (token: string, at: number, length: number, by: string): string => token.slice(0, at) + by + token.slice(at + length)
const withPart = (token: string, part: number, by: string): string =>
  token
    .split('.')
    .map((old, i) => (i === part ? by : old))
    .join('.')

/** What is done to a good token; each may leave it as it was. */
const CHANGES: ((token: string) => string)[] = [
  (token) => replaced(token, below(token.length), 1, oneOf(CHARACTERS)),
  (token) => replaced(token, below(token.length + 1), 0, oneOf(CHARACTERS)),
  (token) => replaced(token, below(token.length), below(40), ''),
  (token) => replaced(token, token.length - 1, 1, oneOf(CHARACTERS)),
  (token) => token.slice(0, below(token.length)),
  (token) => withPart(token, below(3), text(below(60))),
  (token) => withPart(token, below(2), Buffer.from(oneOf(VALUES)).toString('base64url')),
  (token) => withPart(token, 2, Buffer.from(Array.from({ length: below(80) }, () => below(256))).toString('base64url')),
  () => text(below(400)),
]
const altered = (token: string): string => {
  let changed = token
  for (let left = 1 + below(3); left > 0; left--) changed = (CHANGES[below(CHANGES.length)] ?? String)(changed)
  return changed
}

test('[4-53] of 20,000 spellings agent and relay accept only the one that was signed', { timeout: 600_000 }, async () => {
  const sessionToken = await issuer.sign({ iat: START, exp: START + 3000 })
  const controlToken = broker.control({ id: AGENT_ID, publicKey: null })
  let changed = 0
  for (let run = 0; run < RUNS; run++) {
    const session = altered(sessionToken)
    if (session !== sessionToken) changed++
    const asControl = altered(controlToken)
    const accepted = [
      await accepts(() => agent.authenticate(session, sandboxId)),
      await accepts(() => relay(session)),
      await accepts(() => control(asControl)),
    ]
    const good = session === sessionToken
    expect({ run, session, asControl, accepted }).toEqual({ run, session, asControl, accepted: [good, good, asControl === controlToken] })
  }
  expect(changed).toBeGreaterThan(RUNS * 0.9)
})

test('[4-53] the fifteen other last characters, and blanks behind a dot or at the end, are refused', async () => {
  const token = await issuer.sign({ iat: START, exp: START + 600 })
  const others = [...ALPHABET].map((last) => token.slice(0, -1) + last).filter((one) => one !== token)
  for (const spelling of [...others, `${token} `, `${token}=`, `${token}\n`, token.replace('.', '. '), token.replace('.', ' .')]) {
    expect(await accepts(() => agent.authenticate(spelling, sandboxId))).toBe(false)
    expect(await accepts(() => relay(spelling))).toBe(false)
  }
  expect(await accepts(() => agent.authenticate(token, sandboxId))).toBe(true)
})

test('[C-49] no lifetime is believed above 3,600 s, and 60 s of a control token', async () => {
  const iat = START
  for (const [lifetime, accepted] of [
    [3600, true],
    [3601, false],
    [315_360_000, false],
  ] as const) {
    const token = await issuer.sign({ iat, exp: iat + lifetime })
    expect(await accepts(() => agent.authenticate(token, sandboxId))).toBe(accepted)
    expect(await accepts(() => relay(token))).toBe(accepted)
  }
  const claims = { iss: ISSUER, aud: AGENT_ID, sub: 'broker', iat }
  expect(await accepts(async () => control(await issuer.sign({ ...claims, exp: iat + 60 })))).toBe(true)
  expect(await accepts(async () => control(await issuer.sign({ ...claims, exp: iat + 61 })))).toBe(false)
})
