import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'

/** More is not read; how long a secret may be says the broker. */
const MOST_BYTES = 1024 * 1024

export type ReadSecretOptions = {
  /** What a person at a terminal is asked for. */
  prompt: string
  /** Keeps the line break at the end of standard input. */
  exact: boolean
}

/**
 * A secret from standard input, without the line break at its end; a person at a terminal types one line, which is not shown. Throws for
 * what is no UTF-8, or longer than any secret. `undefined`: the person has typed Ctrl-C or Ctrl-D.
 */
export const readSecret = async ({ prompt, exact }: ReadSecretOptions): Promise<string | undefined> => {
  if (process.stdin.isTTY) return await typed(prompt)
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > MOST_BYTES) throw new Error(`standard input is longer than ${MOST_BYTES} bytes: that is no secret`)
    chunks.push(chunk)
  }
  const text = decoded(Buffer.concat(chunks))
  return exact ? text : text.replace(/\r?\n$/, '')
}

const decoded = (bytes: Buffer): string => {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Error('the value on standard input is no UTF-8 text; encode it, for example with base64')
  }
}

/** Line editing works as usual, and writes nothing. */
const typed = async (prompt: string): Promise<string | undefined> => {
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: nowhere, terminal: true, historySize: 0 })
  process.stderr.write(prompt)
  try {
    return await new Promise<string | undefined>((resolve) => {
      lines
        .once('line', resolve)
        .once('close', () => resolve(undefined))
        .once('SIGINT', () => resolve(undefined))
    })
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}
