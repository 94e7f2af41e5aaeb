import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ATTACKS } from '../../neighbours/attackers.ts'
import { brokerApi, dataplane, type Grant } from '../support/api.ts'
import { MODES, type ProviderName, type Stack, startStack } from '../support/stack.ts'
import { eventually } from '../support/traces.ts'

/** The relay takes the same way in the agent, so fewer of them show what it adds. */
const EXECS = { direct: 200, relay: 50 }
/** What an agent that works may have open at one time and not at another. */
const SPARE_DESCRIPTORS = 48

/** Each attack goes on beside a tenant who works; each of the tenant's commands answers, and the agent holds nothing afterwards. */
export const neighboursSuite = (provider: ProviderName, modes: readonly (typeof MODES)[number][] = MODES): void => {
  describe.each(modes)(`%s, ${provider}: a tenant who works beside an attacker`, (mode) => {
    let stack: Stack
    let tenant: Grant
    beforeAll(async () => {
      stack = await startStack({ provider, mode })
      tenant = await brokerApi(stack.brokerUrl).ensure('tenant')
    })
    afterAll(() => stack?.[Symbol.asyncDispose]())

    const descriptors = (): number => readdirSync(`/proc/${stack.agent().ready.pid}/fd`).length

    test.each(ATTACKS)('$name', async ({ name, begin }) => {
      const api = brokerApi(stack.brokerUrl)
      const { body } = await dataplane(tenant, 'POST', '/exec', { command: 'echo before' })
      expect(body).toMatchObject({ stdout: 'before\n' })
      const before = descriptors()
      const grant = await api.ensure(`attacker-${name.replaceAll(' ', '-')}`)
      {
        await using _attack = await begin({ brokerUrl: stack.brokerUrl, grant })
        for (let i = 0; i < EXECS[mode]; i++) {
          const reply = await dataplane(tenant, 'POST', '/exec', { command: `echo ${i}` })
          expect([reply.status, reply.body]).toMatchObject([200, { stdout: `${i}\n`, exit_code: 0 }])
        }
      }
      expect((await api.release(grant.session_id)).status).toBe(204)
      await eventually('the agent has closed what the attacker had open', () => descriptors() <= before + SPARE_DESCRIPTORS)
      const ready = await api.get('/readyz')
      expect(ready.status).toBe(200)
    })
  })
}
