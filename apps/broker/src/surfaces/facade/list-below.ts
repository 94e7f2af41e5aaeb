import { BoxofficeError, type FileEntry } from '@boxoffice/protocol'
import type { SessionDataplane } from '../../dataplane/client.ts'
import type { FilePath } from './paths.ts'

const PAGE = 10_000
const MAX_ENTRIES = 100_000

/** All that is below a directory, `depth` levels deep, sorted by path. More than 100,000 entries are INVALID_REQUEST. */
export async function listBelow({ files }: SessionDataplane, { query }: FilePath, depth: number): Promise<FileEntry[]> {
  const entries: FileEntry[] = []
  let cursor: string | null = null
  do {
    const page = await files.list({ ...query, type: 'any', depth, limit: PAGE, ...(cursor === null ? {} : { cursor }) })
    entries.push(...page.files)
    cursor = page.next_cursor
    if (entries.length > MAX_ENTRIES || (cursor === null && page.truncated))
      throw new BoxofficeError('INVALID_REQUEST', `path: there are more than ${MAX_ENTRIES} entries below it; list a smaller directory`)
  } while (cursor !== null)
  return entries
}
