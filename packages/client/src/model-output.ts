/** What a model gets to read of one stream, in characters [2-13]. */
export const MODEL_OUTPUT_CHARACTERS = 4000
/** What is captured of one stream before that, in bytes; the process is drained beyond it [2-14]. */
export const RAW_OUTPUT_BYTES = 1024 * 1024
const HEAD_SHARE = 0.6

const truncationNotice = (characters: number): string => `\n\n... [${characters} characters truncated] ...\n\n`

/** The first 60 % and the last 40 % of a text that is too long, with a notice between them, all within the limit [2-11]. */
export const truncateForModel = (text: string, limit = MODEL_OUTPUT_CHARACTERS): { text: string; truncated: boolean } => {
  // A character is a code point, so that none is cut in half.
  if (text.length <= limit) return { text, truncated: false }
  const characters = Array.from(text)
  if (characters.length <= limit) return { text, truncated: false }
  // What the notice says depends on how much it displaces, so its longest form is reserved.
  const available = limit - truncationNotice(characters.length).length
  if (available <= 0) return { text: characters.slice(0, limit).join(''), truncated: true }
  const head = Math.floor(available * HEAD_SHARE)
  const tail = available - head
  const notice = truncationNotice(characters.length - head - tail)
  return { text: characters.slice(0, head).join('') + notice + characters.slice(characters.length - tail).join(''), truncated: true }
}

/** Marks raw output of which only the first MiB was kept (`output_keep: "head"`, `max_output_bytes: 1048576`) [2-14]. */
export const withClipNotice = (text: string, { bytes, truncated }: { bytes: number; truncated: boolean }): string =>
  truncated ? `${text}\n... [raw output clipped at ${RAW_OUTPUT_BYTES} bytes, ${bytes - RAW_OUTPUT_BYTES} bytes discarded]` : text
