import { connect, type OnReadOpts, type Socket, type TcpSocketConnectOpts } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Endpoint } from '@boxoffice/kit/endpoint'
import type { AgentTls } from './agent-tls.ts'
import { ReadBuffer } from './read-buffers.ts'

/** Who a connection is for at the moment. */
export type Reader = {
  /** `chunk` is overwritten after the call, unless `buffer` is held. */
  bytes(chunk: Buffer, buffer: ReadBuffer): void
  /** Nothing comes any more. `whole`: the agent has ended its side in an orderly way. */
  closed(whole: boolean): void
}

/** A connection to an agent, which reads into buffers that are used again. Give it a reader before anything can come. */
export class AgentConnection {
  readonly socket: Socket
  /** When the agent may close it for being idle, by `performance.now()`. */
  idleUntil = 0
  #buffer = ReadBuffer.small()
  #reader: Reader | undefined
  #whole = false

  constructor({ secure, address }: Pick<Endpoint, 'secure' | 'address'>, tls: AgentTls) {
    const onread: OnReadOpts = { buffer: () => this.#buffer.bytes, callback: (read) => this.#onRead(read) }
    const target = 'socketPath' in address ? { path: address.socketPath } : address
    const all = { ...target, noDelay: true, onread }
    if (secure) {
      const servername = 'host' in address && !/^[\d.]+$|:/.test(address.host) ? { servername: address.host } : {}
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
