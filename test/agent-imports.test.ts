import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ROOT } from './e2e/support/program.ts'

test('[2-95] the agent imports no MCP package: it runs a process and offers lines', () => {
  const sources = globSync('apps/agent/{src/**/*.ts,package.json}', { cwd: ROOT })
  expect(sources.length).toBeGreaterThan(50)
  const naming = sources.filter((path) => /modelcontextprotocol|@boxoffice\/mcp/.test(readFileSync(`${ROOT}${path}`, 'utf8')))
  expect(naming).toEqual([])
})
