import { BoxofficeError } from '@boxoffice/protocol'
import { deserializeMessage, type JSONRPCMessage, serializeMessage, type Transport } from '@modelcontextprotocol/client'
import type { LineSocket, LineSocketHandlers } from '../../dataplane/line-socket.ts'

export type OpenLines = (handlers: LineSocketHandlers) => Promise<LineSocket>

/** The official SDK's transport over the stdin and stdout of a managed process. */
export class LineTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: (message: JSONRPCMessage) => void
  /** Settles at the end of the connection; an error when it broke, none when the process has ended. */
  readonly closed: Promise<BoxofficeError | undefined>
  readonly #open: OpenLines
  readonly #end = Promise.withResolvers<BoxofficeError | undefined>()
  #lines: LineSocket | undefined

  constructor(open: OpenLines) {
    this.#open = open
    this.closed = this.#end.promise
  }

  async start(): Promise<void> {
    this.#lines = await this.#open({
      line: (line) => this.#receive(line),
      closed: (error) => {
        this.#end.resolve(error)
        if (error !== undefined) this.onerror?.(error)
        this.onclose?.()
      },
    })
  }

  send(message: JSONRPCMessage): Promise<void> {
    if (this.#lines === undefined) throw new BoxofficeError('PROCESS_NOT_RUNNING', 'the server is not connected')
    this.#lines.send(serializeMessage(message).trimEnd())
    return Promise.resolve()
  }

  close(): Promise<void> {
    this.#lines?.close()
    return Promise.resolve()
  }

  #receive(line: string): void {
    if (line.trim() === '') return
    let message: JSONRPCMessage
    try {
      message = deserializeMessage(line)
    } catch (cause) {
      // Servers print other things too, which are nobody's message.
      return this.onerror?.(new Error('a line that is no JSON-RPC message', { cause }))
    }
    this.onmessage?.(message)
  }
}
