import { BoxofficeError, ListFilesResponse } from '@boxoffice/protocol'
import { z } from 'zod'
import type { SessionDataplane } from '../../dataplane/client.ts'
import type { PlacedSession } from '../../domain/session.ts'
import { validate } from '../../http/body.ts'
import { findLiteral, findRegex } from './find-regex.ts'
import { absolutePath, commandPath, filePath, rootQuery } from './paths.ts'

export type SearchOptions = { session: PlacedSession; dataplane: SessionDataplane; signal: AbortSignal }

const MAX_MATCHES = 10_000
const DEFAULT_MATCHES = 1000
const GREP_SECONDS = 60
const GREP_OUTPUT_BYTES = 16 * 1024 * 1024
const pattern = z.string().min(1).max(1024)
const path = z.string().min(1).max(4095)
const limit = z.number().int().min(1).max(MAX_MATCHES).nullish()

const GlobRequest = z.object({ pattern, path, limit })
const GrepRequest = z.object({
  pattern: z
    .string()
    .min(1)
    .max(16 * 1024),
  path,
  glob: pattern.nullish(),
  limit,
})

/** `POST …/glob`: entries below a directory whose relative path matches; `*` stays within one part of a path. */
export async function glob(body: unknown, { session, dataplane, signal }: SearchOptions): Promise<object> {
  const { pattern: wanted, path: given, limit: most } = validate(GlobRequest, body)
  const base = filePath(given)
  const found = await dataplane.files.list(
    {
      ...rootQuery(session),
      path: base,
      type: 'any',
      pattern: wanted,
      limit: most ?? DEFAULT_MATCHES,
      // Without a slash a pattern of the dataplane is for names at any depth.
      ...(wanted.includes('/') || wanted === '**' ? {} : { depth: 1 }),
    },
    { signal },
  )
  const { files, truncated } = ListFilesResponse.parse(found)
  const matches = files.map(({ path: shown, type, size, mtime }) => ({
    path: shownPath(shown),
    is_dir: type === 'directory',
    size_bytes: size,
    modified_at: mtime,
  }))
  return { matches, truncated }
}

/** Listings show what is in the workspace relative to it. */
const shownPath = (shown: string): string => (shown.startsWith('/') ? shown : absolutePath(`./${shown}`))

/** The lines of regular files that have a text, with name and number; `$1` is where, `$2` the text, `$3` what the files' paths are as. */
const GREP = '[ -e "$1" ] || exit 44; find "$1" -type f -regex "$3" -exec grep -HnF -e "$2" -- {} + 2>/dev/null; exit 0'
const MISSING = 44
const LINE = /^(.+?):(\d+):(.*)$/s

/** `POST …/grep`: lines that have a text, which is no regular expression. `glob` is for paths below `path`, without a slash for names. */
export async function grep(body: unknown, { dataplane, signal }: SearchOptions): Promise<object> {
  const { pattern: text, path: given, glob: only, limit: most } = validate(GrepRequest, body)
  if (text.includes('\n')) throw new BoxofficeError('INVALID_REQUEST', 'pattern: must be one line', { details: { field: 'pattern' } })
  const base = commandPath(given)
  const result = await dataplane.exec(
    {
      // The sandbox matches, as one with some patterns takes very long.
      argv: ['/bin/sh', '-c', GREP, 'sh', base, text, pathsLike(base, only ?? undefined)],
      timeout_seconds: GREP_SECONDS,
      max_output_bytes: GREP_OUTPUT_BYTES,
      output_keep: 'head',
    },
    { signal },
  )
  if (result.exit_code === MISSING) throw new BoxofficeError('FILE_NOT_FOUND', `${JSON.stringify(given)} does not exist`)
  const cap = most ?? DEFAULT_MATCHES
  const matches = matchesOf(result.stdout, cap + 1)
  return { matches: matches.slice(0, cap), truncated: matches.length > cap || result.stdout_truncated || result.timed_out }
}

function pathsLike(base: string, only: string | undefined): string {
  if (only === undefined) return '.*'
  if (!only.includes('/')) return `.*/${findRegex(only)}`
  return `${findLiteral(base.replace(/\/+$/, ''))}/${findRegex(only.replace(/^(\.?\/)+/, ''))}`
}

/** At most `most` of them. */
function matchesOf(stdout: string, most: number): object[] {
  const matches: object[] = []
  for (let start = 0; start < stdout.length && matches.length < most; ) {
    const newline = stdout.indexOf('\n', start)
    const end = newline === -1 ? stdout.length : newline
    const [, file, line, text] = LINE.exec(stdout.slice(start, end)) ?? []
    if (file !== undefined) matches.push({ path: absolutePath(file), line: Number(line), text })
    start = end + 1
  }
  return matches
}
