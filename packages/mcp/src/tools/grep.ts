import { forCommands } from '@boxoffice/kit/file-root'
import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import { READS, toTool } from '../base/tool.ts'
import { BOUNDS, boundedText, withNotice } from './bounds.ts'
import { Path } from './place.ts'

/** Seconds that a search may take. */
const SEARCH_SECONDS = 60
const OUTPUT_BYTES = 1024 * 1024

/** Runs the sandbox's own `find` and `grep`, by what POSIX says of them, so that small images have what it takes. */
export const grep = toTool({
  name: 'grep',
  title: 'Search in files',
  description: `Finds lines of files that match an extended regular expression; at most ${BOUNDS.entries} lines`,
  inputSchema: z.strictObject({
    pattern: z
      .string()
      .min(1)
      .max(4096)
      .regex(/^[^\0\n]*$/, 'must be one line'),
    path: Path.default('.').describe('The file, or the directory below which to search'),
    glob: z
      .string()
      .min(1)
      .max(1024)
      .regex(/^[^\0/]*$/, 'is for names of files, without a slash')
      .optional()
      .describe('For names of files, as *.ts'),
    literal: z.boolean().default(false).describe('Takes the pattern as it is, not as an expression'),
  }),
  outputSchema: z.object({
    matches: z.array(z.object({ path: z.string(), line: z.number(), text: z.string() })),
    truncated: z.boolean(),
  }),
  annotations: READS,
  async run({ pattern, path, glob, literal }, { session, signal }) {
    const { exec } = await session()
    const names = glob === undefined ? [] : ['-name', glob]
    const search = ['grep', literal ? '-nF' : '-nE', '-e', pattern, '--', '/dev/null', '{}', '+']
    const result = await exec(['find', forCommands(path), ...names, '-type', 'f', '-exec', ...search], {
      ...{ timeoutSeconds: SEARCH_SECONDS, maxOutputBytes: OUTPUT_BYTES, outputKeep: 'head', signal },
    })
    if (result.stdout === '' && result.stderr !== '') throw new BoxofficeError('INVALID_REQUEST', result.stderr.trim().slice(0, 500))
    const lines = result.stdout.split('\n').flatMap(toMatch)
    const matches: Match[] = []
    let characters = 0
    for (const match of lines) {
      characters += match.path.length + match.text.length
      if (matches.length === BOUNDS.entries || characters > BOUNDS.textCharacters) break
      matches.push(match)
    }
    const truncated = matches.length < lines.length || result.stdoutTruncated || result.timedOut
    const text = matches.map(({ path, line, text }) => `${path}:${line}:${text}`)
    return { text: withNotice(text, truncated), structuredContent: { matches, truncated } }
  },
})

type Match = { path: string; line: number; text: string }

/** `path:line:text`; what else `grep` says, as of files that are no text, is left out. */
const toMatch = (said: string): Match[] => {
  const [, path = '', line, text = ''] = /^(.+?):(\d+):(.*)$/s.exec(said) ?? []
  if (line === undefined) return []
  return [{ path: path.replace(/^\.\/(?:\.\/)?/, ''), line: Number(line), text: boundedText(text).text }]
}
