import { z } from 'zod'

/** What the agent notes with a process in the supervisor's record, so that it knows it again after a restart of its own. */
const Meta = z.object({
  kind: z.enum(['exec', 'shell', 'process']),
  /** The command's first 400 characters, for lists. */
  command: z.string(),
  /** The timeout in seconds that results show. */
  timeout: z.number().optional(),
})
export type Meta = z.infer<typeof Meta>

const PREVIEW_CHARACTERS = 400
const META_CHARACTERS = 4096

export const formatMeta = (meta: Meta): string => {
  const text = JSON.stringify({ ...meta, command: preview(meta.command) })
  return text.length <= META_CHARACTERS ? text : JSON.stringify({ ...meta, command: '' })
}

/** Never throws: the record came back from the sandbox. */
export const parseMeta = (text: string | undefined): Meta => {
  try {
    const parsed = Meta.safeParse(JSON.parse(text ?? ''))
    if (parsed.success) return parsed.data
  } catch {
    // Not ours, or damaged: shown as an exec without a command.
  }
  return { kind: 'exec', command: '' }
}

const preview = (command: string): string =>
  command.length <= PREVIEW_CHARACTERS ? command : Array.from(command.slice(0, 800)).slice(0, PREVIEW_CHARACTERS).join('')
