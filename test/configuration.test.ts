import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { configurationPage } from '../deploy/docs/configuration.ts'
import { ROOT } from './e2e/support/program.ts'

test('docs/configuration.md is what the schemas and flags give', () => {
  const page = readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8')
  expect(page, 'write it anew with: npm run docs').toBe(configurationPage())
})
