import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { SDK_REFERENCE, sdkReferencePage } from '../deploy/docs/sdk-reference.ts'

test('docs/sdk-reference.md is what the docstrings of the SDK give', { timeout: 300_000 }, () => {
  expect(readFileSync(SDK_REFERENCE, 'utf8'), 'write it anew with: npm run docs').toBe(sdkReferencePage())
})
