import { afterAll, beforeAll, describe } from 'vitest'
import { type Stack, startStack } from '../e2e/support/stack.ts'
import { langchainPythonSuite } from './suites/langchain-python.ts'

describe('langchain-boxoffice, local', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local' })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  langchainPythonSuite(() => stack, { whole: true })
})
