import { afterAll, beforeAll, describe } from 'vitest'
import { type Stack, startStack } from '../e2e/support/stack.ts'
import { langchainPythonSuite, unisolatedLangchainPythonSuite } from './suites/langchain-python.ts'

describe('langchain-boxoffice, local', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local' })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  langchainPythonSuite(() => stack, { whole: true })
})

describe('langchain-boxoffice, without isolation', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack({ provider: 'local', agentArgs: ['--isolation', 'none'] })
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  unisolatedLangchainPythonSuite(() => stack)
})
