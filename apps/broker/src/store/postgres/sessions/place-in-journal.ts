import type { Sql } from '../engine/database.ts'

/** The number up to which the journal of an agent's instance is stored; undefined for one that nothing is known of. */
export async function placeInJournal(sql: Sql, agentId: string, instanceId: string): Promise<number | undefined> {
  const text = 'SELECT seq FROM agent_journals WHERE agent_id = $1 AND instance_id = $2'
  return (await sql.rows<{ seq: number }>(text, [agentId, instanceId]))[0]?.seq
}
