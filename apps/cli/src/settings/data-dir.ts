import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where `up` keeps what persists: `$XDG_STATE_HOME/boxoffice`, else `~/.local/state/boxoffice`. */
export const defaultDataDir = (env: NodeJS.ProcessEnv = process.env): string =>
  join(env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'boxoffice')
