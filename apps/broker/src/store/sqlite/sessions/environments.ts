import type { Environment, EnvironmentStore } from '../../environment-store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

export function sqliteEnvironments(db: Db, write: Write): EnvironmentStore {
  const put = db.prepare<[string, string]>(
    `INSERT INTO session_environments SELECT id, ? FROM sessions
     WHERE id = ? AND state IN ('provisioning', 'active', 'idle', 'suspended')
     ON CONFLICT DO UPDATE SET variables = excluded.variables`,
  )
  const of = db.prepare<[string], string>('SELECT variables FROM session_environments WHERE session_id = ?').pluck()
  return {
    put: (sessionId, variables) =>
      write(() => {
        put.run(JSON.stringify(variables), sessionId)
      }),
    async of(sessionId) {
      const variables = of.get(sessionId)
      return variables === undefined ? undefined : (JSON.parse(variables) as Environment)
    },
  }
}
