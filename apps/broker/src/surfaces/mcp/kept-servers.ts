import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { readSecret, writeSecret } from '../../host/data-dir.ts'
import { StartError } from '../../host/start-error.ts'
import type { KeptServers } from './mcp-servers.ts'

const NAME = 'mcp-servers.json'

/** In the data directory, readable by the broker alone: what servers are told by their environment is often secret. */
export const keptServers = (dataDir: string): KeptServers => ({
  read() {
    const text = readSecret(dataDir, NAME)
    if (text === undefined) return []
    try {
      return JSON.parse(text) as unknown[]
    } catch (thrown) {
      throw new StartError(`${join(dataDir, NAME)} is not JSON: ${(thrown as Error).message}; mend or remove it`)
    }
  },
  write(servers) {
    writeSecret(dataDir, `${NAME}.new`, JSON.stringify(servers))
    renameSync(join(dataDir, `${NAME}.new`), join(dataDir, NAME))
  },
})
