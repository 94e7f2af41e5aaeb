import type { ChallengeStore } from '../../store.ts'
import type { Database } from '../engine/database.ts'

/** Only who holds an enroll token is given any; the oldest ones make room. */
const MAX_CHALLENGES = 10_000

export function postgresChallenges({ once }: Database): ChallengeStore {
  return {
    give: async (nonce, until, now) => {
      await once.run(GIVE, [nonce, until, now])
    },
    take: async (nonce, now) => (await once.run('DELETE FROM agent_challenges WHERE nonce = $1 AND until > $2', [nonce, now])) === 1,
  }
}

// Rows that another registration takes or clears at this moment are left to it.
const GIVE = `
  WITH expired AS (
    DELETE FROM agent_challenges WHERE nonce IN (SELECT nonce FROM agent_challenges WHERE until <= $3 FOR UPDATE SKIP LOCKED)
  ), excess AS (
    DELETE FROM agent_challenges WHERE nonce IN (
      SELECT nonce FROM agent_challenges WHERE until > $3 ORDER BY until DESC OFFSET ${MAX_CHALLENGES - 1} FOR UPDATE SKIP LOCKED
    )
  )
  INSERT INTO agent_challenges (nonce, until) VALUES ($1, $2)`
