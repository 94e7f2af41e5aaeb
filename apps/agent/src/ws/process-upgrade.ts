import { BoxofficeError, PROCESS_LIMITS, SUBPROTOCOL_LINES, SUBPROTOCOL_MCP } from '@boxoffice/protocol'
import { WebSocketServer } from 'ws'
import { Query } from '../http/query.ts'
import { managedProcesses } from '../sandbox/managed-processes.ts'
import type { LineHolder, Seat } from '../sandbox/managed-seat.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { OutputPage } from '../supervisor/payloads.ts'

const ROUTE = /^processes\/([^/]+)\/ws$/
/** Control frames and a line's newline come on top. */
const MAX_MESSAGE_BYTES = PROCESS_LIMITS.lineBytes + 1024

/** The id in the path of a managed process's socket. */
export const processIn = (path: string): string | undefined => ROUTE.exec(path)?.[1]

export const lineServer = (): WebSocketServer =>
  new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES,
    handleProtocols: (offered) => [SUBPROTOCOL_LINES, SUBPROTOCOL_MCP].find((name) => offered.has(name)) ?? false,
  })

/** What is settled before the upgrade: the seat, and where on stdout its client begins. */
export type Seated = { seat: Seat; from: number | 'end'; gap: { from: number; to: number } | undefined }

/** Takes the process's one seat, or throws why not [2-64, 2-66]. */
export const seatAt = async (sandbox: Sandbox, processId: string, search: string, holder: LineHolder): Promise<Seated> => {
  const query = new Query(search)
  const takeover = query.flag('takeover', false)
  const asked = query.integer('stdout_offset', { min: 0, max: Number.MAX_SAFE_INTEGER, fallback: -1 })
  const run = query.get('run')
  const seat = managedProcesses(sandbox).sit(processId, holder, { takeover, run, resumes: asked !== -1 })
  try {
    return { seat, ...(await startOf(sandbox, seat, asked === -1 ? seat.position : asked)) }
  } catch (error) {
    // Its client may be back in a moment, and must find its place.
    seat.leave({ written: seat.before, lost: true })
    throw error
  }
}

/** A line that is gone in part is gone: the next one begins behind it. */
const startOf = async ({ link }: Sandbox, { run }: Seat, wanted: number | undefined): Promise<Omit<Seated, 'seat'>> => {
  if (wanted === undefined) return { from: 'end', gap: undefined }
  const page = async (limit: number): Promise<OutputPage> => {
    try {
      return OutputPage.parse(await link.call('output', { id: run, stream: 'stdout', offset: wanted, limit }))
    } catch (error) {
      if (!(error instanceof BoxofficeError)) throw error
      if (error.code === 'EXEC_NOT_FOUND')
        throw new BoxofficeError('PROCESS_NOT_RUNNING', `run: ${JSON.stringify(run)} has ended, and its output is not kept any more`)
      if (error.code !== 'INVALID_REQUEST') throw error
      throw new BoxofficeError('INVALID_REQUEST', 'stdout_offset: beyond what the process has written', { cause: error })
    }
  }
  if ((await page(1)).offset <= wanted) return { from: wanted, gap: undefined }
  const { offset, data } = await page(1024 * 1024)
  const to = offset + Buffer.from(data, 'base64').indexOf(0x0a) + 1
  return { from: to, gap: { from: wanted, to } }
}
