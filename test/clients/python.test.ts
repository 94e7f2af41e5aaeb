import { afterAll, beforeAll, describe } from 'vitest'
import { MODES, type Stack, startStack } from '../e2e/support/stack.ts'
import { asyncPythonSuite, pythonSuite } from './suites/python.ts'

describe.each(MODES)('the Python client, %s', (mode) => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', mode })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  pythonSuite(() => stack, { whole: true })
  if (mode === 'direct') asyncPythonSuite(() => stack)
})
