import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where everything that persists is kept: `$XDG_STATE_HOME/boxoffice`, else `~/.local/state/boxoffice`. */
export const defaultDataDir = (env: NodeJS.ProcessEnv = process.env): string =>
  join(env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'boxoffice')

/** A file that each part makes at its first start. */
const FIRST_FILE = { broker: 'broker.db', agent: 'install-id' } as const

/**
 * The directory of a part: `broker` or `agent` below the data directory, whichever command runs it. Files of the part directly in the
 * data directory stay in use where there are none below.
 */
export const partDirectory = (dataDir: string, part: 'broker' | 'agent'): string => {
  const below = join(dataDir, part)
  const isDirect = !existsSync(join(below, FIRST_FILE[part])) && existsSync(join(dataDir, FIRST_FILE[part]))
  return isDirect ? dataDir : below
}
