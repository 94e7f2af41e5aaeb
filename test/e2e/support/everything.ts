import { realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ROOT } from './program.ts'
import type { ProviderName } from './stack.ts'

const require = createRequire(import.meta.url)
const EVERYTHING = require.resolve('@modelcontextprotocol/server-everything/dist/index.js')

/** A file of this checkout, seen in another place. */
const within = (checkout: string, path: string): string => path.replace(ROOT, `${checkout}/`)

/** A published stdio server as an administrator configures it: its files are this checkout, shown read-only. */
export const everything = (provider: ProviderName, checkout: string, name: string, fields: Record<string, unknown> = {}) => ({
  name,
  // The image has a Node of its own; what a local sandbox sees of this machine need not.
  command: provider === 'local' ? within(checkout, realpathSync(process.execPath)) : 'node',
  args: [within(checkout, EVERYTHING), 'stdio'],
  env: { MCP_CANARY: 'canary-of-the-environment' },
  pipeline_uuid: 'p1',
  box: { host_path: checkout, network: 'off', memory_mb: 512, pids_limit: 256 },
  ...fields,
})
