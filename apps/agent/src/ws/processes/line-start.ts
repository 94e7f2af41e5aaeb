import { BoxofficeError } from '@boxoffice/protocol'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import { OutputPage } from '../../supervisor/payloads.ts'

/** Where on stdout a client begins, and what is lost before that. */
export type LineStart = { from: number | 'end'; gap: { from: number; to: number } | undefined }

const NEWLINE = 0x0a
const MAX_PAGE_BYTES = 1024 * 1024

/** At the offset that the client says it has. A line that is gone in part is gone: the next one begins behind it. */
export const startAt = async (sandbox: Sandbox, run: string, wanted: number): Promise<LineStart> => {
  const output = pagesOf(sandbox, run)
  if ((await output(wanted, 1)).offset <= wanted) return { from: wanted, gap: undefined }
  return behind(wanted, await output(wanted, MAX_PAGE_BYTES))
}

/**
 * For a client that does not say: at `position`, which nobody has got beyond, else with what comes next. Never in the middle of a
 * line: of one that was too long the rest is left out too, and one that is not whole yet comes from its beginning.
 */
export const nextStart = async (sandbox: Sandbox, run: string, position: number | undefined): Promise<LineStart> => {
  const output = pagesOf(sandbox, run)
  if (position === undefined) {
    const { end } = await output(0, 1)
    const { offset, bytes } = await output(Math.max(0, end - MAX_PAGE_BYTES), MAX_PAGE_BYTES)
    const at = bytes.lastIndexOf(NEWLINE)
    return { from: at === -1 && offset > 0 ? 'end' : offset + at + 1, gap: undefined }
  }
  const start = await startAt(sandbox, run, position)
  if (position === 0 || start.gap !== undefined) return start
  const { offset, bytes } = await output(position - 1, MAX_PAGE_BYTES)
  return offset === position - 1 && bytes[0] !== NEWLINE && bytes.includes(NEWLINE) ? behind(position, { offset, bytes }) : start
}

type Page = { offset: number; bytes: Buffer }

const behind = (from: number, { offset, bytes }: Page): LineStart => {
  const to = offset + bytes.indexOf(NEWLINE) + 1
  return { from: to, gap: { from, to } }
}

const pagesOf =
  ({ link }: Sandbox, run: string) =>
  async (offset: number, limit: number): Promise<Page & { end: number }> => {
    try {
      const page = OutputPage.parse(await link.call('output', { id: run, stream: 'stdout', offset, limit }))
      return { offset: page.offset, end: page.end, bytes: Buffer.from(page.data, 'base64') }
    } catch (error) {
      if (!(error instanceof BoxofficeError)) throw error
      if (error.code === 'EXEC_NOT_FOUND')
        throw new BoxofficeError('PROCESS_NOT_RUNNING', `run: ${JSON.stringify(run)} has ended, and its output is not kept any more`)
      if (error.code !== 'INVALID_REQUEST') throw error
      throw new BoxofficeError('INVALID_REQUEST', 'stdout_offset: beyond what the process has written', { cause: error })
    }
  }
