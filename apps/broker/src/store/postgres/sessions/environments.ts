import type { Environment, EnvironmentStore } from '../../environment-store.ts'
import { LIVE } from '../../rows/session-row.ts'
import type { Database } from '../engine/database.ts'

// The session's row is locked: one that ends at the same time deletes what this has written.
const PUT = `INSERT INTO session_environments (session_id, variables)
  SELECT id, $1 FROM sessions WHERE id = $2 AND ${LIVE} FOR NO KEY UPDATE
  ON CONFLICT (session_id) DO UPDATE SET variables = excluded.variables`

export function postgresEnvironments({ read, once }: Database): EnvironmentStore {
  return {
    async put(sessionId, variables) {
      await once.run(PUT, [JSON.stringify(variables), sessionId])
    },
    async of(sessionId) {
      const text = 'SELECT variables FROM session_environments WHERE session_id = $1'
      const [row] = await read.rows<{ variables: string }>(text, [sessionId])
      return row && (JSON.parse(row.variables) as Environment)
    },
  }
}
