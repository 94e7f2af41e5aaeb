import { expect, test } from 'vitest'
import { afterEvent, type RunEvent, type RunState } from '../../src/processes/run-state.ts'

const states: { [Name in RunState['name']]: Extract<RunState, { name: Name }> } = {
  starting: { name: 'starting' },
  running: { name: 'running' },
  waiting: { name: 'waiting', endedAt: 5, restartInMs: 500 },
  exited: { name: 'exited', endedAt: 7 },
}
const started: RunEvent = { type: 'started' }
const ended: RunEvent = { type: 'ended', at: 9, restartInMs: null }
const failed: RunEvent = { type: 'ended', at: 9, restartInMs: 1000 }
const restarting: RunEvent = { type: 'restarting' }
const stopped: RunEvent = { type: 'stopped' }

const exited = { name: 'exited', endedAt: 9 }
const waiting = { name: 'waiting', endedAt: 9, restartInMs: 1000 }

test.each<[RunState['name'], RunEvent, unknown]>([
  ['starting', started, { name: 'running' }],
  ['starting', ended, exited],
  ['starting', failed, waiting],
  ['starting', restarting, undefined],
  ['starting', stopped, undefined],
  ['running', started, undefined],
  ['running', ended, exited],
  ['running', failed, waiting],
  ['running', restarting, undefined],
  ['running', stopped, undefined],
  ['waiting', started, undefined],
  ['waiting', ended, undefined],
  ['waiting', failed, undefined],
  ['waiting', restarting, { name: 'starting' }],
  ['waiting', stopped, { name: 'exited', endedAt: 5 }],
  ['exited', started, undefined],
  ['exited', ended, undefined],
  ['exited', failed, undefined],
  ['exited', restarting, undefined],
  ['exited', stopped, undefined],
])('a managed process that is %s: %o', (name, event, next) => {
  expect(afterEvent(states[name], event)).toEqual(next)
})
