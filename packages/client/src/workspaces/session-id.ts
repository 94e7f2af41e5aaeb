import { workspaceError } from './workspace-error.ts'

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const MAX_LENGTH = 128

export const newSessionId = (): string => crypto.randomUUID()

export const isSessionId = (name: string): boolean => UUID_V4.test(name)

/** Before anything is done with the file system: the id becomes the name of a directory [1-09, 1-10]. */
export const checkSessionId = (id: string, allowNonUuid = false): void => {
  if (typeof id !== 'string' || id === '' || id === '.' || id === '..' || /[/\\\0]/.test(id))
    throw invalid(id, 'must not contain path separators')
  if (isSessionId(id)) return
  if (!allowNonUuid) throw invalid(id, 'must be a UUIDv4 in lower case; allowNonUuid takes other names')
  if (id.length > MAX_LENGTH || !id.isWellFormed() || /\p{Cc}/u.test(id))
    throw invalid(id, `must have at most ${MAX_LENGTH} characters, and no control characters`)
}

const invalid = (id: string, why: string) => workspaceError('INVALID_PATH', `Invalid session_id '${id}': ${why}`)
