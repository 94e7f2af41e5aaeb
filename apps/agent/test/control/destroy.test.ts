import { type BoxofficeError, ExecRequest } from '@boxoffice/protocol'
import { expect, test } from 'vitest'
import { runExec } from '../../src/dataplane/run.ts'
import { startControl } from './support/start-control.ts'

/** What a process is told when its sandbox is destroyed so. */
const killedBy = async (query: string, revoked?: 'hard_ttl'): Promise<unknown> => {
  const { host, ask } = await startControl()
  const sandbox = await host.ensure('s1')
  const run = await runExec(sandbox, ExecRequest.parse({ command: 'exec sleep 60', detach: true }), {
    signal: AbortSignal.timeout(60_000),
    admit() {},
  })
  await run.started
  if (revoked !== undefined) {
    const until = Math.ceil(Date.now() / 1000) + 60
    const sessions = [{ session_id: 's1', reason: revoked, until }]
    expect(await ask('POST', '/revocations', { sessions, tokens: [] })).toMatchObject({ status: 204 })
  }
  expect(await ask('DELETE', `/sandboxes/${sandbox.id}${query}`)).toMatchObject({ status: 204 })
  return run.result.then(
    (result) => result,
    (thrown: unknown) => (thrown as BoxofficeError).details?.result,
  )
}

// The order to end the sandbox and the revocation of its session come on two connections, in any order.
test('[C-28, C-51] processes die of what ended their session, also when the order to end the sandbox comes first', async () => {
  expect(await killedBy('?reason=hard_ttl')).toMatchObject({ reason: 'killed', kill_cause: 'expired' })
  expect(await killedBy('?reason=released', 'hard_ttl')).toMatchObject({ reason: 'killed', kill_cause: 'released' })
})

test('what is asked after a sandbox was ended is told why, also while the revocation of its session is still on its way', async () => {
  const { host, ask } = await startControl()
  const { id } = await host.ensure('s1')
  expect(await ask('DELETE', `/sandboxes/${id}?reason=hard_ttl`)).toMatchObject({ status: 204 })
  expect(host.revocations.deniedSession('s1')).toBe('hard_ttl')
  const failed = await host.ensure('s2')
  expect(await ask('DELETE', `/sandboxes/${failed.id}?reason=failed`)).toMatchObject({ status: 204 })
  expect(host.revocations.deniedSession('s2')).toBeUndefined()
})

test('a broker that names no reason is obeyed: the revocation says it, or the session was released', async () => {
  expect(await killedBy('', 'hard_ttl')).toMatchObject({ reason: 'killed', kill_cause: 'expired' })
  expect(await killedBy('')).toMatchObject({ reason: 'killed', kill_cause: 'released' })
})

test('a reason that there is not is refused, and the sandbox stays', async () => {
  const { host, ask } = await startControl()
  const { id } = await host.ensure('s1')
  expect(await ask('DELETE', `/sandboxes/${id}?reason=tired`)).toMatchObject({ status: 400, body: { error: { code: 'INVALID_REQUEST' } } })
  expect(host.find(id).state).toBe('running')
})
