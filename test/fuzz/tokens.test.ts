import { expect, test } from 'vitest'
import { ISSUER } from '../../apps/agent/test/support/tokens.ts'
import { AGENT_ID, acceptedBy, issuer, START } from './targets/tokens.ts'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

test('[4-53] the fifteen other last characters, and blanks behind a dot or at the end, are refused', async () => {
  const token = await issuer.sign({ iat: START, exp: START + 600 })
  const others = [...ALPHABET].map((last) => token.slice(0, -1) + last).filter((one) => one !== token)
  for (const spelling of [...others, `${token} `, `${token}=`, `${token}\n`, token.replace('.', '. '), token.replace('.', ' .')]) {
    expect(await acceptedBy.agent(spelling)).toBe(false)
    expect(await acceptedBy.relay(spelling)).toBe(false)
  }
  expect(await acceptedBy.agent(token)).toBe(true)
})

test('[C-49] no lifetime is believed above 3,600 s, and 60 s of a control token', async () => {
  const iat = START
  for (const [lifetime, accepted] of [
    [3600, true],
    [3601, false],
    [315_360_000, false],
  ] as const) {
    const token = await issuer.sign({ iat, exp: iat + lifetime })
    expect(await acceptedBy.agent(token)).toBe(accepted)
    expect(await acceptedBy.relay(token)).toBe(accepted)
  }
  const claims = { iss: ISSUER, aud: AGENT_ID, sub: 'broker', iat }
  expect(await acceptedBy.control(await issuer.sign({ ...claims, exp: iat + 60 }))).toBe(true)
  expect(await acceptedBy.control(await issuer.sign({ ...claims, exp: iat + 61 }))).toBe(false)
})
