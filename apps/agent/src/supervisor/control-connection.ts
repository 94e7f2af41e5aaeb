import type { Socket } from 'node:net'
import { BoxofficeError } from '@boxoffice/protocol'
import type { ConnectionRole } from './connection.ts'
import { type ProcessSubject, parseFault, processError } from './faults.ts'
import type { SupervisorExit } from './link.ts'
import { Exit } from './payloads.ts'
import { type Acknowledgement, encodeAck, encodeFrame, FRAME, WireViolation } from './wire.ts'

type Pending = { subject: ProcessSubject; resolve: (ok: Record<string, unknown>) => void; reject: (reason: unknown) => void }

/** The one control connection: calls and their replies, acknowledgements, events. */
export class ControlConnection implements ConnectionRole {
  readonly #socket: Socket
  readonly #pending = new Map<number, Pending>()
  readonly #ended: (exit: SupervisorExit) => void
  readonly #asked: () => void
  readonly #gone: () => void
  #rid = 0

  constructor(socket: Socket, options: { ended: (exit: SupervisorExit) => void; asked: () => void; gone: () => void }) {
    this.#socket = socket
    this.#ended = options.ended
    this.#asked = options.asked
    this.#gone = options.gone
  }

  call(op: string, fields: Record<string, unknown>): Promise<Record<string, unknown>> {
    const rid = ++this.#rid
    return new Promise((resolve, reject) => {
      this.#pending.set(rid, { subject: { op, id: String(fields.id ?? '') }, resolve, reject })
      this.#socket.write(encodeFrame(FRAME.call, { ...fields, rid, op }))
    })
  }

  /** Has the supervisor keep so many idle channels dialled. */
  keepSpares(n: number): void {
    this.#socket.write(encodeFrame(FRAME.spare, { n }))
  }

  acknowledge(ack: Acknowledgement): void {
    this.#socket.write(encodeAck(ack))
  }

  data(): void {
    throw new WireViolation('data on the control connection')
  }

  frame(type: number, payload: Record<string, unknown>): void {
    if (type === FRAME.reply) this.#reply(payload)
    else if (type === FRAME.event) this.#event(payload)
    else throw new WireViolation('frame out of place')
  }

  closed(): void {
    const pending = [...this.#pending.values()]
    this.#pending.clear()
    this.#gone()
    for (const { reject } of pending)
      reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'The sandbox does not answer; try again', { retryAfter: 1 }))
  }

  #reply({ rid, ok, error }: Record<string, unknown>): void {
    const pending = typeof rid === 'number' ? this.#pending.get(rid) : undefined
    if (pending === undefined) throw new WireViolation('reply to no call')
    this.#pending.delete(rid as number)
    if (error !== undefined) pending.reject(processError(parseFault(error), pending.subject))
    else if (typeof ok === 'object' && ok !== null && !Array.isArray(ok)) pending.resolve(ok as Record<string, unknown>)
    else pending.reject(new BoxofficeError('INTERNAL', 'An internal error occurred; the log has the request_id'))
  }

  /** Events of later versions are ignored. */
  #event(payload: Record<string, unknown>): void {
    if (payload.event === 'egress') return this.#asked()
    if (payload.event !== 'ended') return
    const exit = Exit.safeParse(payload.exit)
    if (!exit.success) throw new WireViolation('event without a valid exit')
    this.#ended(exit.data)
  }
}
