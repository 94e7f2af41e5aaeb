import { BoxofficeError, type ExitFrame, ListExecsResponse, type SpawnError } from '@boxoffice/protocol'
import type { DataplaneClient, SessionDataplane } from '../../../dataplane/client.ts'
import type { ProcessSocket, ProcessStart } from '../../../dataplane/process-socket.ts'
import type { SandboxEnvironments } from '../../facade/sandbox-environments.ts'
import type { Opened } from '../call/access-tokens.ts'
import { toConnectError } from '../call/connect.ts'
import type { StreamCall } from '../call/stream-call.ts'
import { newProcess, type ProcessName, processOfExec } from './process-ids.ts'
import type { StartRequest } from './process-requests.ts'

const BASH = '/bin/bash'
/** Several may read and write: who comes to a process takes it from nobody. */
const SHARED = { mode: 'mirror' } as const
/** Requests at most that wait until one process takes their stdin. */
const MAX_WAITING = 16

/** Commands and terminals of E2B's clients: each is an exec or a shell of the dataplane, detached, so that it outlives its client. */
export class Processes {
  readonly #dataplane: DataplaneClient
  readonly #environments: SandboxEnvironments
  /** Processes that a client of this broker reads now. */
  readonly #read = new Map<string, ReadProcess>()

  constructor(dataplane: DataplaneClient, environments: SandboxEnvironments) {
    this.#dataplane = dataplane
    this.#environments = environments
  }

  /** `Start`: runs a command, or a terminal where the request has a `pty`, and streams its events. */
  async start(call: StreamCall, { process, pty, stdin, tag }: StartRequest): Promise<void> {
    if (tag !== undefined) throw new BoxofficeError('UNSUPPORTED', 'tag: processes have no tags here; use the pid')
    const { opened, timeoutMs } = call
    const kind = pty === undefined ? 'exec' : 'shell'
    const name = newProcess(kind)
    const { cmd, args, envs, cwd } = process
    const env = await this.#environments.withOwn(opened.session.id, envs)
    const common = { env, detach: true, ...SHARED, ...(cwd === undefined ? {} : { cwd }) }
    const startOf = (program: string): ProcessStart => {
      const argv = [program, ...args]
      if (pty !== undefined) return { kind, frame: { ...common, shell_id: name.id, argv, ...pty.size, term: env.TERM } }
      const timeout_seconds = timeoutMs === undefined ? 0 : Math.ceil(timeoutMs / 1000)
      return { kind, frame: { ...common, exec_id: name.id, argv, stdin: stdin ? 'open' : 'closed', timeout_seconds } }
    }
    const failed = await this.#run(call, name, startOf(cmd))
    // Images without bash: their shell knows the same flags.
    const retried = failed?.kind === 'not_found' && cmd === BASH ? await this.#run(call, name, startOf('/bin/sh')) : failed
    if (retried !== undefined) throw spawnFailed(retried)
  }

  /** `Connect`: the events of a process from its beginning, as far as they are kept. */
  async connect(call: StreamCall, name: ProcessName): Promise<void> {
    await this.#run(call, name, { kind: name.kind, frame: { attach: name.id, stdout_offset: 0, stderr_offset: 0, ...SHARED } })
  }

  /** Those that run and were started by this facade. */
  async list(opened: Opened) {
    const { execs } = await this.#of(opened).json({ method: 'GET', path: '/execs?state=running' }, ListExecsResponse)
    return execs.flatMap(({ exec_id, command }) => {
      const name = processOfExec(exec_id)
      return name === undefined ? [] : [{ pid: name.pid, config: configOf(command) }]
    })
  }

  /** Resolves when the process has taken it, but for what fits into buffers: who sends more waits. RATE_LIMITED: too many wait already. */
  async sendInput(opened: Opened, name: ProcessName, bytes: Uint8Array): Promise<void> {
    const known = this.#readOf(opened, name)
    if (known === undefined) return this.#with(opened, name, (socket) => socket.write(bytes))
    if (known.waiting >= MAX_WAITING)
      throw new BoxofficeError('RATE_LIMITED', `process ${name.pid} reads too little of its stdin; send more once it has`, {
        retryAfter: 1,
      })
    known.waiting++
    try {
      while (known.full !== undefined) await known.full.promise
      if (!known.socket.write(bytes)) known.full = Promise.withResolvers()
      await known.full?.promise
    } finally {
      known.waiting--
    }
  }

  async closeStdin(opened: Opened, name: ProcessName): Promise<void> {
    await this.#with(opened, name, (socket) => socket.endInput())
  }

  async resize(opened: Opened, name: ProcessName, size: { cols: number; rows: number }): Promise<void> {
    await this.#with(opened, name, (socket) => socket.resize(size))
  }

  async signal(opened: Opened, { id }: ProcessName, signal: 'TERM' | 'KILL'): Promise<void> {
    const response = await this.#of(opened).request({ method: 'POST', path: `/execs/${id}/signal`, json: { signal } })
    response.resume()
  }

  /** Streams a process until its end. Gives why it could not be started, where nothing has been sent. */
  async #run(call: StreamCall, { pid, kind }: ProcessName, start: ProcessStart): Promise<SpawnError | undefined> {
    const { opened, timeoutMs } = call
    const key = keyOf(opened, pid)
    let socket: ProcessSocket | undefined
    let read: ReadProcess | undefined
    let exit: ExitFrame | undefined
    let isTimedOut = false
    let isStarted = false
    const started = Promise.withResolvers<SpawnError | undefined>()
    const stream = call.stream({
      full: () => socket?.pause(),
      drained: () => socket?.resume(),
      left: () => socket?.leave(),
    })
    // The agent ends a command in time; a terminal has no time limit there.
    const timer = kind === 'shell' && timeoutMs !== undefined ? setTimeout(() => onTime(), timeoutMs) : undefined
    const onTime = (): void => {
      isTimedOut = true
      socket?.signal('KILL')
    }
    try {
      socket = await this.#of(opened).openProcess(start, {
        ready() {
          if (!isStarted) stream.send({ event: { start: { pid } } })
          isStarted = true
        },
        output(name, bytes) {
          stream.send({ event: { data: { [kind === 'shell' ? 'pty' : name]: bytes.toString('base64') } } })
        },
        drain: () => hasRoom(read),
        exit(frame) {
          exit = frame
          if (frame.spawn_error !== null && !isStarted) return started.resolve(frame.spawn_error)
          if (frame.timed_out || isTimedOut) stream.end({ error: timedOut })
          else stream.end({ message: { event: { end: endOf(frame) } } })
        },
        closed: (error) => {
          clearTimeout(timer)
          hasRoom(read)
          if (this.#read.get(key) === read) this.#read.delete(key)
          if (exit === undefined && !stream.isEnded)
            stream.end({ error: toConnectError(error ?? new BoxofficeError('SANDBOX_LOST', 'the process has been left')) })
          started.resolve(undefined)
        },
      })
    } catch (thrown) {
      clearTimeout(timer)
      throw thrown
    }
    if (stream.isEnded) socket.leave()
    else if (exit === undefined) {
      read = { socket, full: undefined, waiting: 0 }
      this.#read.set(key, read)
    }
    return isStarted ? undefined : started.promise
  }

  /** A process that is read now, for whom its agent would let come to it: its socket may be somebody else's. */
  #readOf(opened: Opened, { pid, kind }: ProcessName): ReadProcess | undefined {
    if (opened.actor.capabilities.includes(kind)) return this.#read.get(keyOf(opened, pid))
    throw new BoxofficeError('CAPABILITY_DENIED', `${kind} not granted: the holder of this X-Access-Token lacks the capability`)
  }

  /** Over the socket that is open, else over one of its own. */
  async #with(opened: Opened, name: ProcessName, use: (socket: ProcessSocket) => void): Promise<void> {
    const known = this.#readOf(opened, name)
    if (known !== undefined) return use(known.socket)
    let isOver = false
    const frame = { attach: name.id, stdout_offset: 'end', stderr_offset: 'end', ...SHARED }
    const socket = await this.#of(opened).openProcess(
      { kind: name.kind, frame },
      {
        ready() {},
        output() {},
        exit() {
          isOver = true
        },
        closed() {},
      },
    )
    try {
      if (isOver) throw new BoxofficeError('PROCESS_NOT_RUNNING', `process ${name.pid} does not run`)
      use(socket)
    } finally {
      socket.leave()
    }
  }

  #of({ session, actor }: Opened): SessionDataplane {
    return this.#dataplane.session(session.id, actor)
  }
}

/** `full`: more stdin waits than the agent takes at once; resolves when there is room again. `waiting`: requests that wait for that. */
type ReadProcess = { socket: ProcessSocket; full: PromiseWithResolvers<void> | undefined; waiting: number }

function hasRoom(read: ReadProcess | undefined): void {
  read?.full?.resolve()
  if (read !== undefined) read.full = undefined
}

const keyOf = ({ session }: Opened, pid: number): string => `${session.id} ${pid}`

const timedOut = { code: 'deadline_exceeded', message: 'the time limit of the command has passed' } as const

const endOf = ({ exit_code, reason, signal }: ExitFrame) => {
  const exited = reason === 'exited'
  const status = exited ? `exit status ${exit_code}` : `signal: ${signal ?? reason}`
  return { exitCode: exit_code ?? -1, exited, status, ...(exit_code === 0 ? {} : { error: status }) }
}

const spawnFailed = ({ kind, message }: SpawnError): BoxofficeError => {
  if (kind === 'not_found') return new BoxofficeError('FILE_NOT_FOUND', message)
  return new BoxofficeError(kind === 'permission_denied' ? 'PERMISSION_DENIED' : 'INVALID_REQUEST', message)
}

const LOGIN_SHELL = `${BASH} -l -c `
/** What was started, as far as a listing tells it: at most 400 characters. */
const configOf = (command: string) => {
  if (command.startsWith(LOGIN_SHELL)) return { cmd: BASH, args: ['-l', '-c', command.slice(LOGIN_SHELL.length)], envs: {} }
  const [cmd = '', ...args] = command.split(' ')
  return { cmd, args, envs: {} }
}
