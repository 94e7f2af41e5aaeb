import type { ChallengeStore } from '../../store.ts'
import type { Db } from '../engine/database.ts'
import type { Write } from '../engine/writer.ts'

/** Only who holds an enroll token is given any; the oldest ones make room. */
const MAX_CHALLENGES = 10_000

export function sqliteChallenges(db: Db, write: Write): ChallengeStore {
  const insert = db.prepare('INSERT INTO agent_challenges (nonce, until) VALUES (?, ?)')
  const expire = db.prepare('DELETE FROM agent_challenges WHERE until <= ?')
  const count = db.prepare('SELECT count(*) FROM agent_challenges').pluck()
  const makeRoom = db.prepare('DELETE FROM agent_challenges WHERE nonce IN (SELECT nonce FROM agent_challenges ORDER BY until LIMIT ?)')
  const take = db.prepare('DELETE FROM agent_challenges WHERE nonce = ? AND until > ?')
  return {
    give: async (nonce, until, now) =>
      write.vital(() => {
        expire.run(now)
        const excess = (count.get() as number) - MAX_CHALLENGES + 1
        if (excess > 0) makeRoom.run(excess)
        insert.run(nonce, until)
      }),
    take: async (nonce, now) => write.vital(() => take.run(nonce, now).changes === 1),
  }
}
