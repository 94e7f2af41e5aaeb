/** How the end of a response's body is found. */
export type Framing = { type: 'none' } | { type: 'length'; bytes: number } | { type: 'chunked' } | { type: 'close' }

export type ResponseHead = {
  status: number
  /** Names as they came, and values, in turn. */
  headers: string[]
  /** What `Connection` says, in lower case. */
  connection: string
  framing: Framing
  /** The seconds for which the agent says that it keeps an idle connection. */
  keepAliveSeconds: number | undefined
}

export const MAX_HEAD_BYTES = 32 * 1024

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/
const LENGTH = /^\d{1,15}$/

/**
 * Reads the head of a response, without the empty line at its end. Throws for everything that somebody else could read in another
 * way: lines that are folded or malformed, two lengths, a length beside an encoding, an encoding that is not `chunked`.
 */
export function parseHead(text: string, method: string): ResponseHead {
  const lines = text.split('\r\n')
  const status = Number(STATUS_LINE.exec(lines[0] ?? '')?.[1])
  if (!(status >= 100)) throw new Error('an answer without a status line')
  const headers: string[] = []
  let connection = ''
  let length: string | undefined
  let encoding: string | undefined
  let keepAliveSeconds: number | undefined
  for (let i = 1; i < lines.length; i++) {
    const [, name, padded] = HEADER_LINE.exec(lines[i] as string) ?? []
    if (name === undefined || padded === undefined) throw new Error('an answer with a malformed header')
    const value = withoutBlanks(padded)
    headers.push(name, value)
    switch (name.toLowerCase()) {
      case 'content-length':
        if (length !== undefined || !LENGTH.test(value)) throw new Error('an answer whose length is not one number')
        length = value
        break
      case 'transfer-encoding':
        // With a blank behind it, some parsers take it for another encoding.
        if (encoding !== undefined || padded.toLowerCase() !== 'chunked') throw new Error('an answer in an encoding other than chunked')
        encoding = value
        break
      case 'connection':
        connection += connection === '' ? value.toLowerCase() : `,${value.toLowerCase()}`
        break
      case 'keep-alive':
        keepAliveSeconds = Number(/(?:^|[ ,;])timeout=(\d{1,6})/i.exec(value)?.[1] ?? Number.NaN)
    }
  }
  if (length !== undefined && encoding !== undefined) throw new Error('an answer with both a length and an encoding')
  const framing: Framing =
    method === 'HEAD' || status < 200 || status === 204 || status === 304
      ? { type: 'none' }
      : encoding !== undefined
        ? { type: 'chunked' }
        : length !== undefined
          ? { type: 'length', bytes: Number(length) }
          : { type: 'close' }
  return { status, headers, connection, framing, keepAliveSeconds: Number.isNaN(keepAliveSeconds) ? undefined : keepAliveSeconds }
}

/** Without the blanks at its end; a no-break space is none. */
function withoutBlanks(padded: string): string {
  let end = padded.length
  while (end > 0 && (padded[end - 1] === ' ' || padded[end - 1] === '\t')) end--
  return padded.slice(0, end)
}

/** Whether its connection ends with it. */
export const saysClose = ({ connection }: ResponseHead): boolean => /\bclose\b/.test(connection)

/** One header's value, by its name in lower case. */
export function headerOf({ headers }: ResponseHead, wanted: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if ((headers[i] as string).toLowerCase() === wanted) return headers[i + 1]
  return undefined
}
