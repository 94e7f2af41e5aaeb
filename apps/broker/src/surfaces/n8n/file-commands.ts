import { BoxofficeError, type ErrorCode } from '@boxoffice/protocol'
import { z } from 'zod'
import type { SessionDataplane } from '../../dataplane/client.ts'
import { validate } from '../../http/body.ts'
import { commandPath, type FilePath, filePath } from '../facade/paths.ts'

/** Seconds for one of these commands. */
const TIMEOUT = 60

const APPEND = `mkdir -p "\${1%/*}/" && cat >> "$1"`

/** `$3`: directories too; `$4`: over what is there. A directory is copied into one that is there. */
const COPY = `
if [ ! -e "$1" ] && [ ! -L "$1" ]; then exit 43; fi
if [ -d "$1" ] && [ "$3" != true ]; then exit 44; fi
if [ "$4" != true ] && { [ -e "$2" ] || [ -L "$2" ]; }; then exit 45; fi
if [ ! -d "$1" ] && [ -d "$2" ]; then exit 44; fi
mkdir -p "\${2%/*}/" || exit
if [ -d "$1" ]; then mkdir -p "$2" && cp -R "$1/." "$2"; else cp "$1" "$2"; fi
`

const BY_EXIT: Readonly<Record<number, readonly [ErrorCode, string]>> = {
  43: ['FILE_NOT_FOUND', 'there is no such file'],
  44: ['IS_DIRECTORY', 'it is a directory'],
  45: ['FILE_EXISTS', 'the destination is there already'],
}

/** What commands say on stderr, in the locale C. */
const BY_TEXT: readonly (readonly [RegExp, ErrorCode])[] = [
  [/Is a directory/, 'IS_DIRECTORY'],
  [/Not a directory|File exists/, 'NOT_A_DIRECTORY'],
  [/No such file/, 'FILE_NOT_FOUND'],
  [/Permission denied|not permitted/, 'PERMISSION_DENIED'],
  [/Read-only file system/, 'READ_ONLY'],
  [/No space left|quota exceeded/, 'QUOTA_EXCEEDED'],
]

/** Adds to the end of a file, which is made where there is none. The dataplane has no route for it, so a command does it. */
export const append = (dataplane: SessionDataplane, path: FilePath, content: Buffer): Promise<void> =>
  run(dataplane, APPEND, [commandPath(path)], content)

const CopyRequest = z.object({
  src: z.string().min(1),
  dest: z.string().min(1),
  recursive: z.boolean().nullish(),
  overwrite: z.boolean().nullish(),
})

/** Copies a file, or a directory where the request says `recursive`. */
export async function copy(dataplane: SessionDataplane, body: unknown): Promise<void> {
  const { src, dest, recursive, overwrite } = validate(CopyRequest, body)
  const [from, to] = [filePath(src), filePath(dest)]
  if (`${to.absolute}/`.startsWith(from.absolute === '/' ? '/' : `${from.absolute}/`))
    throw new BoxofficeError('INVALID_PATH', 'dest: must not be src, or below it')
  await run(dataplane, COPY, [commandPath(from), commandPath(to), String(recursive === true), String(overwrite === true)])
}

async function run(dataplane: SessionDataplane, script: string, args: readonly string[], stdin: Buffer = Buffer.alloc(0)): Promise<void> {
  const { exit_code, stderr, timed_out } = await dataplane.exec({
    argv: ['/bin/sh', '-c', script, 'sh', ...args],
    env: { LC_ALL: 'C' },
    stdin_base64: stdin.toString('base64'),
    timeout_seconds: TIMEOUT,
    max_output_bytes: 4096,
  })
  if (exit_code === 0) return
  if (timed_out) throw new BoxofficeError('TIMEOUT', `it took more than ${TIMEOUT} s`)
  const [code, message] = BY_EXIT[exit_code ?? -1] ?? [codeOf(stderr), stderr.trim().slice(0, 500) || `ended with ${exit_code}`]
  throw new BoxofficeError(code, message)
}

const codeOf = (stderr: string): ErrorCode => BY_TEXT.find(([pattern]) => pattern.test(stderr))?.[1] ?? 'INVALID_PATH'
