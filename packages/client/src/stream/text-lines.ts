/** A line that is longer comes in parts, so that output without line ends is not kept whole. */
const LONGEST_LINE = 1024 * 1024

/** The lines of UTF-8 output, without their ends (`\n` or `\r\n`). Bytes after the last end are a line as well. */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let begun = ''
  for await (const bytes of chunks) {
    const parts = decoder.decode(bytes, { stream: true }).split('\n')
    const unfinished = parts.pop() ?? ''
    for (const part of parts) {
      yield withoutReturn(begun + part)
      begun = ''
    }
    begun += unfinished
    if (begun.length >= LONGEST_LINE) {
      yield begun
      begun = ''
    }
  }
  begun += decoder.decode()
  if (begun !== '') yield begun
}

const withoutReturn = (line: string): string => (line.endsWith('\r') ? line.slice(0, -1) : line)
