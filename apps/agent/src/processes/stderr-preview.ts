import { continuedHead } from '@boxoffice/kit/utf8-edges'
import { PROCESS_LIMITS } from '@boxoffice/protocol'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { OutputPage } from '../supervisor/payloads.ts'

/** No character has more. */
const BYTES = PROCESS_LIMITS.stderrPreviewCharacters * 4

/**
 * The end of what a process wrote to stderr, at most 4000 characters. Asked of the supervisor's ring when somebody wants to see it,
 * so it costs nothing while the process writes [2-62]. `end`: how much it has written, where that is known.
 */
export const stderrPreview = async ({ link }: Sandbox, run: string, end?: number): Promise<string> => {
  if (end === 0) return ''
  try {
    const page = async (offset: number, limit: number): Promise<OutputPage> =>
      OutputPage.parse(await link.call('output', { id: run, stream: 'stderr', offset, limit }))
    const length = end ?? (await page(0, 1)).end
    if (length === 0) return ''
    const { data } = await page(Math.max(0, length - BYTES), BYTES)
    return lastCharacters(Buffer.from(data, 'base64'))
  } catch {
    // The supervisor has forgotten it, or is gone.
    return ''
  }
}

const lastCharacters = (bytes: Buffer): string => {
  const text = bytes.subarray(bytes.length < BYTES ? 0 : continuedHead(bytes)).toString()
  const tail = text.slice(-PROCESS_LIMITS.stderrPreviewCharacters)
  // Not half of a surrogate pair.
  return /^[\udc00-\udfff]/.test(tail) ? tail.slice(1) : tail
}
