import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { ChannelConnection } from './channel.ts'
import { type ConnectionRole, type Hello, hashSecret, sameHash, serveConnection } from './connection.ts'
import { ControlConnection } from './control-connection.ts'
import type { Channel, ChannelHandler, SupervisorExit, SupervisorLink } from './link.ts'
import { UnprovenConnections } from './unproven-connections.ts'
import { encodeFrame, FRAME, WireViolation } from './wire.ts'

export type SupervisorLinkOptions = {
  /** Listens already, where somebody knew ahead that there would be one. */
  server?: Server | undefined
  socketPath: string
  /** The supervisor's program on this host. */
  supervisorPath: string
  /** SHA-256 (hex) of the link secret of an earlier run; absent for a sandbox that has never dialled. */
  secretHash?: string
  /** Keeps the hash. The supervisor gets the secret only after this has returned. */
  onSecret: (hash: string) => void | Promise<void>
  log: Logger
  /** Idle channels that the supervisor keeps dialled. */
  spare?: number
}

const DEFAULT_SPARE = 6
/** Above this the agent closes idle channels. Only the agent does: the supervisor cannot know that one is being lent at that moment. */
const MAX_IDLE = 32
const DIAL_WITHIN_MS = 10_000

type Waiter = { handler: ChannelHandler; resolve: (channel: Channel) => void; reject: (reason: unknown) => void }

/** Starts to listen and returns the link; the supervisor dials in by itself. */
export const createSupervisorLink = async (options: SupervisorLinkOptions): Promise<SupervisorLink> =>
  new UnixSupervisorLink(options, options.server ?? (await listenForSupervisor(options.socketPath)))

/** The socket's directory is private to the agent on the host; the socket itself is 0666, because the sandbox has another uid. */
export const listenForSupervisor = async (path: string): Promise<Server> => {
  if (existsSync(path)) rmSync(path, { force: true })
  const server = createServer({ pauseOnConnect: true })
  server.listen({ path, readableAll: true, writableAll: true })
  await once(server, 'listening')
  return server
}

class UnixSupervisorLink implements SupervisorLink {
  readonly #options: SupervisorLinkOptions
  readonly #server: Server
  readonly #unproven: UnprovenConnections
  readonly #sockets = new Set<Socket>()
  readonly #channels = new Set<ChannelConnection>()
  readonly #idle: ChannelConnection[] = []
  readonly #waiters = new Set<Waiter>()
  readonly #ended = new Set<(exit: SupervisorExit) => void>()
  readonly #connection = new Set<(connected: boolean) => void>()
  #secretHash: string | undefined
  #control: ControlConnection | undefined
  #closed = false

  constructor(options: SupervisorLinkOptions, server: Server) {
    this.#options = options
    this.#unproven = new UnprovenConnections(options.log)
    this.#secretHash = options.secretHash
    this.#server = server
    server.on('connection', (socket) => this.#accept(socket))
    server.on('error', (err) => this.#options.log.error({ err }, 'supervisor link'))
  }

  get connected(): boolean {
    return this.#control !== undefined
  }

  whenConnected(signal: AbortSignal): Promise<void> {
    if (this.connected) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        off()
        signal.removeEventListener('abort', abort)
      }
      const off = this.onConnection((connected) => {
        if (!connected) return
        settle()
        resolve()
      })
      const abort = (): void => {
        settle()
        reject(new BoxofficeError('SANDBOX_STARTING', 'The sandbox is starting; try again', { retryAfter: 1 }))
      }
      if (signal.aborted) abort()
      else signal.addEventListener('abort', abort)
    })
  }

  open(handler: ChannelHandler, signal?: AbortSignal): Promise<Channel> {
    if (this.#closed) return Promise.reject(new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again'))
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.alive) return Promise.resolve(idle.lend(handler))
    }
    return this.#waitForDial(handler, signal)
  }

  async call(op: string, fields: Record<string, unknown>): Promise<Record<string, unknown>> {
    if (this.#control === undefined)
      throw new BoxofficeError('BACKEND_UNAVAILABLE', 'The sandbox does not answer; try again', { retryAfter: 1 })
    return this.#control.call(op, fields)
  }

  acknowledge(channel: number, stdout: number, stderr: number): void {
    for (const connection of this.#channels) {
      if (connection.number !== channel) continue
      if (connection.lease !== undefined) connection.lease.acknowledged = { stdout, stderr }
    }
    this.#control?.acknowledge({ channel, stdout, stderr })
  }

  onEnded(listener: (exit: SupervisorExit) => void): () => void {
    this.#ended.add(listener)
    return () => this.#ended.delete(listener)
  }

  onConnection(listener: (connected: boolean) => void): () => void {
    this.#connection.add(listener)
    return () => this.#connection.delete(listener)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const stopped = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    for (const waiter of this.#waiters) waiter.reject(new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again'))
    for (const socket of this.#sockets) socket.destroy()
    await stopped
  }

  #accept(accepted: Socket): void {
    const socket = serveConnection(accepted, {
      admit: (hello, read) => this.#admit(hello, read),
      unproven: this.#unproven,
    })
    this.#sockets.add(socket)
    socket.on('close', () => this.#sockets.delete(socket))
  }

  #admit(hello: Hello, socket: Socket): ConnectionRole {
    const fresh = this.#checkSecret(hello)
    if (hello.kind === 'channel') return this.#admitChannel(hello, socket)
    if (this.#control !== undefined) throw new WireViolation('a control connection exists already')
    return this.#admitControl(socket, fresh)
  }

  /** True for the first control connection of a sandbox's life: the only one that comes without the secret. */
  #checkSecret(hello: Hello): boolean {
    if (this.#secretHash === undefined) {
      if (hello.kind !== 'control' || hello.secret !== undefined)
        throw new WireViolation('first connection is not a new control connection')
      return true
    }
    if (hello.secret === undefined || !sameHash(hashSecret(hello.secret), this.#secretHash)) throw new WireViolation('wrong link secret')
    return false
  }

  #admitControl(socket: Socket, fresh: boolean): ConnectionRole {
    const control = new ControlConnection(socket, {
      ended: (exit) => {
        for (const listener of this.#ended) listener(exit)
      },
      gone: () => {
        if (this.#control !== control) return
        this.#control = undefined
        this.#announce(false)
      },
    })
    // Taken before the secret is kept, so that a second dial meanwhile is refused.
    this.#control = control
    void this.#welcome(socket, fresh).catch((err: unknown) => {
      this.#options.log.error({ err }, 'link secret could not be kept')
      socket.destroy()
    })
    return control
  }

  async #welcome(socket: Socket, fresh: boolean): Promise<void> {
    const spare = this.#options.spare ?? DEFAULT_SPARE
    if (fresh) {
      const secret = randomBytes(32).toString('hex')
      this.#secretHash = hashSecret(secret)
      await this.#options.onSecret(this.#secretHash)
      socket.write(encodeFrame(FRAME.welcome, { secret, spare }))
    } else {
      socket.write(encodeFrame(FRAME.welcome, { spare }))
      for (const { number, lease } of this.#channels) {
        if (lease?.acknowledged !== undefined) this.#control?.acknowledge({ channel: number, ...lease.acknowledged })
      }
    }
    if (!socket.destroyed) this.#announce(true)
  }

  #admitChannel(hello: Hello, socket: Socket): ConnectionRole {
    const channel = new ChannelConnection(socket, {
      number: hello.channel,
      supervisorPath: this.#options.supervisorPath,
      idle: (connection) => this.#offer(connection),
      gone: (connection) => {
        this.#channels.delete(connection)
        const at = this.#idle.indexOf(connection)
        if (at !== -1) this.#idle.splice(at, 1)
      },
    })
    this.#channels.add(channel)
    this.#offer(channel)
    return channel
  }

  #offer(channel: ChannelConnection): void {
    const [waiter] = this.#waiters
    if (waiter !== undefined) waiter.resolve(channel.lend(waiter.handler))
    else if (this.#idle.length < MAX_IDLE) this.#idle.push(channel)
    else channel.destroy()
  }

  #announce(connected: boolean): void {
    for (const listener of this.#connection) listener(connected)
  }

  #waitForDial(handler: ChannelHandler, signal: AbortSignal | undefined): Promise<Channel> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.#waiters.delete(waiter)
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
      }
      const waiter: Waiter = {
        handler,
        resolve: (channel) => {
          settle()
          resolve(channel)
        },
        reject: (reason) => {
          settle()
          reject(reason)
        },
      }
      const abort = (): void => waiter.reject(signal?.reason)
      const timer = setTimeout(
        () => waiter.reject(new BoxofficeError('BACKEND_UNAVAILABLE', 'The sandbox does not answer; try again', { retryAfter: 1 })),
        DIAL_WITHIN_MS,
      )
      this.#waiters.add(waiter)
      if (signal?.aborted) abort()
      else signal?.addEventListener('abort', abort, { once: true })
    })
  }
}
