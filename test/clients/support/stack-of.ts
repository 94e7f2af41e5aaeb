import { afterAll, beforeAll } from 'vitest'
import { type Stack, type StackOptions, startStack } from '../../e2e/support/stack.ts'

/** Starts a stack before the tests of the surrounding file or `describe`, and stops it after them. */
export const stackOf = (options: StackOptions): (() => Stack) => {
  let stack: Stack
  beforeAll(async () => {
    stack = await startStack(options)
  })
  afterAll(() => stack?.[Symbol.asyncDispose]())
  return () => stack
}
