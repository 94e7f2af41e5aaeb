import { expect, test } from 'vitest'
import { readStepTimeout } from '../../../apps/cli/src/sbs/step-timeout.ts'

test.each([
  [undefined, 30],
  ['', 30],
  ['45', 45],
  ['1.5', 1.5],
  ['0', 1],
  ['-3', 1],
  ['0.2', 1],
])('[3-43] SBS_STEP_TIMEOUT_SEC=%s is %s seconds', (text, seconds) => {
  expect(readStepTimeout(text)).toEqual({ seconds })
})

test.each(['ten', '30s', 'NaN', 'Infinity'])('[3-43] SBS_STEP_TIMEOUT_SEC=%s is no number: 30 seconds, with a warning', (text) => {
  expect(readStepTimeout(text)).toEqual({ seconds: 30, warning: expect.stringContaining('SBS_STEP_TIMEOUT_SEC') })
})
