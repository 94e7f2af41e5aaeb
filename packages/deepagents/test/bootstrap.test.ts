import type { Session } from '@boxoffice/client'
import { expect, test } from 'vitest'
import { checkSessionId, verifyBootstrap } from '../src/bootstrap.ts'

const CLAIMS = { thread_id: 'thread-1', sid: 'ssn_1', sandbox_id: 'sb_1' }

/** `configurable.sandbox` that says all the right things, with a token of these claims. */
const blockOf = (claims: unknown): unknown => ({
  thread_id: 'thread-1',
  session_id: 'ssn_1',
  sandbox: { id: 'sb_1' },
  token: `head.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.signature`,
})

/** The session that was made of such a block; `takes` says whether its agent takes the token. */
const sessionOf = (takes = true): Session => {
  const stat = async () => (takes ? {} : Promise.reject(new Error('401')))
  return { id: 'ssn_1', sandboxId: 'sb_1', files: { stat } } as unknown as Session
}

const refused = { code: 'BOOTSTRAP_REFUSED' }

test('[C-60] a token of this thread, session and sandbox is taken', async () => {
  await verifyBootstrap(blockOf(CLAIMS), 'thread-1', sessionOf())
})

test.for([
  ['another thread', { ...CLAIMS, thread_id: 'thread-2' }],
  ['no thread', { ...CLAIMS, thread_id: null }],
  ['another session', { ...CLAIMS, sid: 'ssn_2' }],
  ['another sandbox', { ...CLAIMS, sandbox_id: 'sb_2' }],
  ['no claims', []],
  ['null', null],
] as const)('[C-60] a token of %s is refused, whatever stands beside it', async ([, claims]) => {
  await expect(verifyBootstrap(blockOf(claims), 'thread-1', sessionOf())).rejects.toMatchObject(refused)
})

test.for([undefined, 7, '', 'a', 'a.*.c', 'a.eyJ.c'])('[C-60] the token %j is refused', async (token) => {
  await expect(verifyBootstrap({ token }, 'thread-1', sessionOf())).rejects.toMatchObject(refused)
})

test('[C-60] a token that the agent does not take is refused', async () => {
  await expect(verifyBootstrap(blockOf(CLAIMS), 'thread-1', sessionOf(false))).rejects.toMatchObject(refused)
})

test('[C-60] beside a broker that answers, a session_id alone must be that of the thread', () => {
  checkSessionId({ session_id: 'ssn_1' }, sessionOf())
  checkSessionId({ session_id: 'ssn_2', token: 'of the time before' }, sessionOf())
  expect(() => checkSessionId({ session_id: 'ssn_2' }, sessionOf())).toThrow('not the session of this thread')
})
