import { expect, test } from 'vitest'
import { AgentSilence } from '../../src/agents/silence.ts'
import { ReportPace } from '../../src/registration/report-pace.ts'

let clock = 0
const silenceOf = (agents: number): AgentSilence => {
  const silence = new AgentSilence(Date.now, () => clock)
  for (let i = 0; i < agents; i++) silence.reported(`agt_${i}`, 0)
  return silence
}
const paceOf = (silence: AgentSilence, leastSeconds = 2, timeoutSeconds = 6) =>
  new ReportPace({ silence, leastSeconds, timeoutSeconds, monotonic: () => clock })

test.each([
  { agents: 0, seconds: 2 },
  { agents: 500, seconds: 2 },
  { agents: 750, seconds: 3 },
  { agents: 1000, seconds: 4 },
  // Later an agent would count as silent.
  { agents: 5000, seconds: 4 },
])('$agents agents report every $seconds s', ({ agents, seconds }) => {
  expect(paceOf(silenceOf(agents)).seconds()).toBe(seconds)
})

test('a pace that is configured is kept, and a longer silence lets agents report less often', () => {
  expect(paceOf(silenceOf(1000), 60).seconds()).toBe(60)
  expect(paceOf(silenceOf(5000), 2, 60).seconds()).toBe(20)
})

test('agents that report no more do not count', () => {
  const silence = silenceOf(1000)
  const pace = paceOf(silence)
  expect(pace.seconds()).toBe(4)
  clock += 11_000
  for (let i = 0; i < 600; i++) silence.reported(`agt_${i}`, 0)
  expect(pace.seconds()).toBe(2.4)
})
