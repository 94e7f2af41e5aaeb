import { afterAll, beforeAll, describe } from 'vitest'
import { type Stack, startStack } from '../e2e/support/stack.ts'
import { langchainPythonSuite } from './suites/langchain-python.ts'
import { pythonSuite } from './suites/python.ts'

describe('the Python packages, docker', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'docker' })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  pythonSuite(() => stack, { whole: false })
  langchainPythonSuite(() => stack, { whole: false })
})
