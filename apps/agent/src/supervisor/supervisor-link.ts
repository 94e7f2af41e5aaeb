import { randomBytes } from 'node:crypto'
import type { Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { BoxofficeError } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Awake, AwakeLinks } from './awake-links.ts'
import { ChannelConnection } from './channel.ts'
import { ChannelWaiters } from './channel-waiters.ts'
import { type ConnectionRole, type Hello, hashSecret, sameHash, serveConnection } from './connection.ts'
import { ControlConnection } from './control-connection.ts'
import type { Channel, ChannelHandler, SupervisorExit, SupervisorLink } from './link.ts'
import { LinkListener, listenForSupervisor } from './link-listener.ts'
import { acceptedTunnel } from './tunnel.ts'
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
  /** Those of the agent that are in use. */
  awake: AwakeLinks
  /** How long nothing is asked of a sandbox before its spare channels are let go; 5 s where nothing is said. */
  idleMs?: number
}

/** What is asked next finds one; more at once wait for dials [decision 014]. */
const SPARE = 1
const IDLE_MS = 5000
/** Above this the agent closes idle channels. Only the agent does: the supervisor cannot know that one is being lent at that moment. */
const MAX_IDLE = 32
/** Connections of programs at once; a supervisor makes no more. */
const MAX_EGRESS = 256

/** Starts to listen and returns the link; the supervisor dials in by itself. */
export const createSupervisorLink = async (options: SupervisorLinkOptions): Promise<SupervisorLink> =>
  new UnixSupervisorLink(options, options.server ?? (await listenForSupervisor(options.socketPath)))

class UnixSupervisorLink implements SupervisorLink, Awake {
  readonly #options: SupervisorLinkOptions
  readonly #server: Server
  readonly #listener: LinkListener
  readonly #unproven: UnprovenConnections
  readonly #sockets = new Set<Socket>()
  readonly #channels = new Set<ChannelConnection>()
  readonly #idle: ChannelConnection[] = []
  readonly #waiters = new ChannelWaiters()
  readonly #ended = new Set<(exit: SupervisorExit) => void>()
  readonly #connection = new Set<(connected: boolean) => void>()
  #secretHash: string | undefined
  #control: ControlConnection | undefined
  /** The control connection has had its welcome. */
  #welcomed = false
  /** The supervisor keeps as many spare channels as it is told to. */
  #keepsSpares = false
  #watches = false
  #dials = false
  #egress = false
  #onEgress: ((connection: Duplex) => void) | undefined
  #egressConnections = 0
  /** How many it is to keep: none while the sandbox rests. A supervisor that knows no `spare` frame keeps `SPARE` always. */
  #spare = 0
  #usedAt = 0
  #idleTimer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: SupervisorLinkOptions, server: Server) {
    this.#options = options
    this.#unproven = new UnprovenConnections(options.log)
    this.#secretHash = options.secretHash
    this.#server = server
    server.on('connection', (socket) => this.#accept(socket))
    this.#listener = new LinkListener(server, options.socketPath, (err) => options.log.error({ err }, 'supervisor link'))
  }

  get connected(): boolean {
    return this.#control !== undefined
  }

  get watches(): boolean {
    return this.#watches
  }

  get dials(): boolean {
    return this.#dials
  }

  get egress(): boolean {
    return this.#egress
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
    this.#use()
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.alive) return Promise.resolve(idle.lend(handler))
    }
    const channel = this.#waiters.wait(handler, signal)
    this.#askForMore()
    return channel
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

  async listenForEgress(port: number): Promise<void> {
    if (!this.#egress)
      throw new BoxofficeError('UNSUPPORTED', 'network: this sandbox was started by an older release, which has no proxy; start a new one')
    await this.call('egress', { port })
  }

  onEgress(handler: (connection: Duplex) => void): void {
    this.#onEgress = handler
  }

  onConnection(listener: (connected: boolean) => void): () => void {
    this.#connection.add(listener)
    return () => this.#connection.delete(listener)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearTimeout(this.#idleTimer)
    this.#options.awake.delete(this)
    this.#listener.close()
    const stopped = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#waiters.rejectAll(new BoxofficeError('SANDBOX_LOST', 'The sandbox is gone; negotiate again'))
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
    if (hello.kind === 'egress') return this.#admitEgress(hello, socket)
    if (this.#control !== undefined) throw new WireViolation('a control connection exists already')
    this.#keepsSpares = hello.spares === true
    this.#watches = hello.watches === true
    this.#dials = hello.dials === true
    this.#egress = hello.egress === true
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
      asked: () => this.#use(),
      gone: () => {
        if (this.#control !== control) return
        this.#control = undefined
        this.#welcomed = false
        // It dials again, if it is there.
        if (!this.#closed) this.#listener.open()
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
    if (fresh) {
      const secret = randomBytes(32).toString('hex')
      this.#secretHash = hashSecret(secret)
      await this.#options.onSecret(this.#secretHash)
      this.#spare = SPARE
      this.#usedAt = performance.now()
      socket.write(encodeFrame(FRAME.welcome, { secret, spare: this.#spareOfWelcome() }))
    } else {
      socket.write(encodeFrame(FRAME.welcome, { spare: this.#spareOfWelcome() }))
      for (const { number, lease } of this.#channels) {
        if (lease?.acknowledged !== undefined) this.#control?.acknowledge({ channel: number, ...lease.acknowledged })
      }
    }
    if (socket.destroyed) return
    this.#welcomed = true
    if (this.#keepsSpares && this.#spare === 0) this.#listener.close()
    else this.#watchUse()
    this.#announce(true)
  }

  #spareOfWelcome(): number {
    return this.#keepsSpares ? this.#spare : SPARE
  }

  /** Something is asked of the sandbox: more of it may follow. */
  #use(): void {
    this.#usedAt = performance.now()
    if (this.#spare >= SPARE) return
    this.#spare = SPARE
    if (!this.#welcomed || !this.#keepsSpares) return
    // It listens before the supervisor hears that it may dial.
    this.#listener.open()
    this.#control?.keepSpares(SPARE)
    this.#watchUse()
  }

  /**
   * The supervisor takes a channel for idle as soon as it has written the end of its operation; where a slow reader has that end still
   * before it, nobody can use the channel. So what waits gets a channel that the supervisor dials on top of those.
   */
  #askForMore(): void {
    if (!this.#welcomed || !this.#keepsSpares || this.#waiters.first() === undefined) return
    let wanted = SPARE
    for (const channel of this.#channels) if (channel.paused) wanted++
    if (wanted === this.#spare) return
    this.#spare = wanted
    this.#control?.keepSpares(wanted)
  }

  #watchUse(): void {
    if (!this.#keepsSpares || this.#closed) return
    this.#options.awake.add(this)
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => this.#restIfIdle(), this.#restAt() - performance.now()).unref()
  }

  #restAt(): number {
    return this.#usedAt + (this.#options.idleMs ?? IDLE_MS)
  }

  #restIfIdle(): void {
    if (this.#waiters.first() !== undefined) this.#usedAt = performance.now()
    if (this.#restAt() > performance.now()) this.#watchUse()
    else if (!this.rest()) this.#options.awake.delete(this)
  }

  /** Lets go of what an idle sandbox does not need; its control connection stays, and so do operations that go on. */
  rest(): boolean {
    // The supervisor has to dial, for what waits or for its control connection, whose welcome begins anew.
    if (!this.#welcomed || this.#waiters.first() !== undefined) return false
    clearTimeout(this.#idleTimer)
    this.#options.awake.delete(this)
    this.#spare = 0
    this.#control?.keepSpares(0)
    for (const idle of this.#idle.splice(0)) idle.destroy()
    this.#listener.close()
    return true
  }

  #admitChannel(hello: Hello, socket: Socket): ConnectionRole {
    const channel = this.#channel(hello, socket)
    this.#offer(channel)
    return channel
  }

  /** A channel that begins with a connection of a program; it is one like the others when that has ended. */
  #admitEgress(hello: Hello, socket: Socket): ConnectionRole {
    if (this.#onEgress === undefined) throw new WireViolation('nobody takes connections of programs')
    if (this.#egressConnections >= MAX_EGRESS) throw new WireViolation('too many connections of programs')
    const channel = this.#channel(hello, socket)
    const tunnel = acceptedTunnel((handler) => channel.lend(handler))
    this.#egressConnections++
    tunnel.once('close', () => this.#egressConnections--)
    this.#onEgress(tunnel)
    return channel
  }

  #channel(hello: Hello, socket: Socket): ChannelConnection {
    const channel = new ChannelConnection(socket, {
      number: hello.channel,
      supervisorPath: this.#options.supervisorPath,
      idle: (connection) => this.#offer(connection),
      gone: (connection) => {
        this.#channels.delete(connection)
        const at = this.#idle.indexOf(connection)
        if (at !== -1) this.#idle.splice(at, 1)
      },
      paused: () => this.#askForMore(),
    })
    this.#channels.add(channel)
    return channel
  }

  #offer(channel: ChannelConnection): void {
    this.#usedAt = performance.now()
    const waiter = this.#waiters.first()
    if (waiter !== undefined) waiter.resolve(channel.lend(waiter.handler))
    // A sandbox that rests has none: this one was on its way, or its operation went on.
    else if (this.#idle.length < MAX_IDLE && !(this.#keepsSpares && this.#spare === 0)) this.#idle.push(channel)
    else channel.destroy()
  }

  #announce(connected: boolean): void {
    for (const listener of this.#connection) listener(connected)
  }
}
