import { connect, type OnReadOpts, type Socket, type TcpSocketConnectOpts } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { AgentTls } from './agent-tls.ts'
import { ReadBuffer } from './read-buffers.ts'

/** Who a connection is for at the moment. */
export type Reader = {
  /** `chunk` is overwritten after the call, unless `buffer` is held. */
  bytes(chunk: Buffer, buffer: ReadBuffer): void
  /** Nothing comes any more. `whole`: the agent has ended its side in an orderly way. */
  closed(whole: boolean): void
}

/** Where to connect to: host and port, or the path of a unix socket. */
export type Address = { secure: boolean; options: Pick<TcpSocketConnectOpts, 'host' | 'port'> | { path: string } }

/** A connection to an agent, which reads into buffers that are used again. Give it a reader before anything can come. */
export class AgentConnection {
  readonly socket: Socket
  /** When the agent may close it for being idle, by `performance.now()`. */
  idleUntil = 0
  #buffer = ReadBuffer.small()
  #reader: Reader | undefined
  #whole = false

  constructor({ secure, options }: Address, tls: AgentTls) {
    const onread: OnReadOpts = { buffer: () => this.#buffer.bytes, callback: (read) => this.#onRead(read) }
    const all = { ...options, noDelay: true, onread }
    if (secure) {
      const servername =
        'host' in options && options.host !== undefined && !/^[\d.]+$|:/.test(options.host) ? { servername: options.host } : {}
      this.socket = connectTls({ ...all, ...servername, ...tls })
    } else this.socket = connect(all as TcpSocketConnectOpts)
    this.socket.on('error', () => {})
    this.socket.once('end', () => {
      this.#whole = true
    })
    this.socket.once('close', () => {
      this.#buffer.leave()
      this.#reader?.closed(this.#whole)
    })
  }

  /** Without a reader it is idle: what comes then is nobody's, and ends it. */
  set reader(reader: Reader | undefined) {
    this.#reader = reader
  }

  destroy(): void {
    this.socket.destroy()
  }

  #onRead(read: number): boolean {
    const buffer = this.#buffer
    if (this.#reader === undefined) this.destroy()
    else this.#reader.bytes(buffer.bytes.subarray(0, read), buffer)
    this.#buffer = buffer.next(read)
    return true
  }
}
