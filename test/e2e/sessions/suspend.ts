import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerApi, dataplane, type Grant } from '../support/api.ts'
import { MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

/** Counts for as long as it may run; each count replaces the file as a whole. */
const COUNTING = '(i=0; while :; do i=$((i+1)); echo $i > new; mv new count; sleep 0.1; done) > /dev/null 2>&1 &'

/** Sessions that nobody uses give back what they hold and are there again when somebody comes; those that end are over. */
export const suspendSuite = (provider: ProviderName): void => {
  describe.each(MODES)(`%s, ${provider}: a session that nobody uses, or that ends`, (mode) => {
    let stack: Stack
    let broker: ReturnType<typeof brokerApi>
    beforeAll(async () => {
      const profiles = [
        { name: 'freezes', idle_timeout_seconds: 2 },
        { name: 'stops', idle_timeout_seconds: 2, stop_after_seconds: 2 },
        { name: 'ends', hard_ttl_seconds: 10 },
      ]
      stack = await startStack({ provider, mode, config: { profiles } })
      broker = brokerApi(stack.brokerUrl)
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    const sessionState = ({ session_id }: Grant) => broker.stateOf(session_id)
    const suspensions = async () => (await broker.get('/v1/audit?event=sandbox.session.suspend')).text
    const content = async (grant: Grant) => (await dataplane(grant, 'GET', '/files/download?path=count')).text

    test('[4-92, C-53, C-62] is frozen; a request for a file wakes it, and its background process goes on', async () => {
      const grant = await broker.ensure('freezes', { profile: 'freezes' })
      await dataplane(grant, 'POST', '/exec', { command: COUNTING })
      await eventually('it is suspended', async () => (await sessionState(grant)) === 'suspended')
      expect(await suspensions()).toContain(grant.session_id)
      const woken = Number(await content(grant))
      await eventually('it counts on', async () => Number(await content(grant)) > woken)
      await eventually('the session is active', async () => (await sessionState(grant)) === 'active')
    })

    test('[4-92, C-53] is stopped later without seeming to be used; what ran has ended, its files are there', async () => {
      const grant = await broker.ensure('stops', { profile: 'stops' })
      await dataplane(grant, 'POST', '/exec', { command: COUNTING, exec_id: 'background' })
      await eventually('it is suspended', async () => (await sessionState(grant)) === 'suspended')
      // The stop comes 2 s later, and whatever it says of the sandbox with the next reports of the agent.
      for (const end = performance.now() + 7000; performance.now() < end; await new Promise((resolve) => setTimeout(resolve, 250)))
        expect(await sessionState(grant)).toBe('suspended')
      const kept = await content(grant)
      expect(Number(kept)).toBeGreaterThan(0)
      await new Promise((resolve) => setTimeout(resolve, 500))
      expect(await content(grant)).toBe(kept)
      expect((await dataplane(grant, 'GET', '/execs/background')).body).toMatchObject({ error: { code: 'EXEC_NOT_FOUND' } })
    })

    test('[4-92, C-28, C-51] ends at its hard TTL whatever runs: 410 with the partial result, then 401 and 410', async () => {
      const grant = await broker.ensure('ends', { profile: 'ends' })
      const ran = await dataplane(grant, 'POST', '/exec', { command: 'echo partial; sleep 60' })
      expect(ran.status).toBe(410)
      expect(ran.body).toMatchObject({
        error: { code: 'SESSION_EXPIRED', details: { result: { stdout: 'partial\n', reason: 'killed', kill_cause: 'expired' } } },
      })
      expect((await dataplane(grant, 'GET', '/execs')).body).toMatchObject({
        error: { code: expect.stringMatching(/^(SESSION_RELEASED|TOKEN_EXPIRED)$/) },
      })
      expect((await broker.get(`/v1/sandbox/sessions/${grant.session_id}`)).status).toBe(410)
      expect((await broker.ensure('ends')).session_id).not.toBe(grant.session_id)
    })

    test('[4-34, 4-36, 4-37, C-30] a released session refuses its token within 2 s, and the next ensure gives another', async () => {
      const grant = await broker.ensure('released')
      expect((await dataplane(grant, 'POST', '/exec', { command: 'true' })).status).toBe(200) // from now on the agent knows the token
      const released = await broker.release(grant.session_id)
      expect([released.status, released.text]).toEqual([204, ''])
      const start = performance.now()
      await eventually('the token is refused', async () => (await dataplane(grant, 'GET', '/execs')).status === 401)
      expect(performance.now() - start).toBeLessThan(30_000)
      expect((await dataplane(grant, 'GET', '/execs')).body).toMatchObject({
        error: { code: 'SESSION_RELEASED', details: { reason: 'released' } },
      })
      expect((await broker.ensure('released')).session_id).not.toBe(grant.session_id)
    })
  })
}
