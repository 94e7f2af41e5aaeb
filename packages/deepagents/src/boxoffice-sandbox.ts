import { randomUUID } from 'node:crypto'
import { isCode, type Session } from '@boxoffice/client'
import { forCommands } from '@boxoffice/kit/file-root'
import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import {
  BaseSandbox,
  type DeleteResult,
  type EditResult,
  type ExecuteResponse,
  type FileDownloadResponse,
  type FileUploadResponse,
  type GlobResult,
  type GrepResult,
  type LsResult,
  type ReadResult,
  type WriteResult,
} from 'deepagents'
import { BoxofficeError, toBoxofficeError } from './errors.ts'
import { execute, isEnded } from './execute.ts'
import { deletePath, downloadFiles, listDirectory, uploadFiles } from './files.ts'
import { type BoxofficeSandboxOptions, type Settings, type ThreadsOptions, toSettings, unknownOptions } from './options.ts'
import type { Patience } from './patience.ts'
import { asAsked, fromCommands, rebase } from './rebase.ts'
import { runConfig } from './run-config.ts'
import { ThreadSessions } from './thread-sessions.ts'
import { Turns } from './turns.ts'

/** The server runs 32 at once. Below that none has to wait for its `Retry-After`, and others have room beside the agent. */
const MOST_COMMANDS = 24

type Lease = { session: Session; threadId: string; signal: AbortSignal | undefined }

/**
 * A backend of deepagents whose commands and files are those of a Boxoffice sandbox.
 *
 *   const sandbox = await BoxofficeSandbox.create({ threadId: 'thread-1' })
 *   const agent = createDeepAgent({ model, backend: sandbox })
 *
 * For a graph that serves many threads, `BoxofficeSandbox.forThreads()` is one backend for all of them.
 */
export class BoxofficeSandbox extends BaseSandbox {
  /** Names this backend; never empty, also before a sandbox is there (deepagents hides its `execute` tool otherwise). */
  readonly id: string
  /** The thread whose sandbox it is; undefined for `forThreads()`. */
  readonly threadId: string | undefined
  readonly #settings: Settings
  readonly #edits = new KeyedQueue()
  readonly #commands = new WeakMap<Session, Turns>()
  readonly #allowHosts: readonly string[]
  #sessions: ThreadSessions | undefined
  #session: Session | undefined

  /** Options as for `create`. Nothing is sent before `initialize()`. */
  constructor(options: BoxofficeSandboxOptions = {}) {
    super()
    const { threads, ...given } = options as BoxofficeSandboxOptions & { threads?: ThreadsOptions }
    refuse(unknownOptions(threads === undefined ? 'create' : 'forThreads', threads ?? given))
    this.threadId = threads === undefined ? (options.threadId ?? `deepagents-${randomUUID()}`) : undefined
    this.id = `boxoffice:${this.threadId ?? 'threads'}`
    this.#settings = toSettings(threads ?? options)
    this.#allowHosts = threads?.allowHosts ?? []
    if (threads !== undefined) this.#sessions = this.#openSessions()
  }

  /** A sandbox that runs, with its initial files. */
  static async create(options: BoxofficeSandboxOptions = {}): Promise<BoxofficeSandbox> {
    const sandbox = new BoxofficeSandbox(options)
    await sandbox.initialize()
    return sandbox
  }

  /**
   * One backend for every thread of a graph: each call works in the sandbox of the thread that runs it, by the `thread_id` of the run's
   * configuration. Sub-agents share the sandbox of their parent. A sandbox is acquired by the first call.
   */
  static forThreads(options: ThreadsOptions = {}): BoxofficeSandbox {
    return new BoxofficeSandbox({ threads: options } as BoxofficeSandboxOptions)
  }

  /** True between `initialize()` and `close()`. */
  get isRunning(): boolean {
    return this.#sessions !== undefined && (this.threadId === undefined || this.#session !== undefined)
  }

  /** Acquires the sandbox and writes its initial files. */
  async initialize(): Promise<void> {
    if (this.#sessions !== undefined)
      throw new BoxofficeError('the sandbox is initialized already; each instance is initialized once', 'ALREADY_INITIALIZED')
    const sessions = this.#openSessions()
    this.#sessions = sessions
    try {
      await sessions.get(this.threadId as string)
    } catch (error) {
      sessions.close()
      this.#sessions = undefined
      throw error
    }
  }

  /**
   * Ends this backend: of `create()` with its sandbox, unless `keepSandbox`. The sandboxes of `forThreads()` stay, for who comes back
   * to their threads; they end by their leases.
   */
  async close({ keepSandbox = false }: { keepSandbox?: boolean } = {}): Promise<void> {
    const session = this.#session
    const sessions = this.#sessions
    this.#session = undefined
    this.#sessions = undefined
    try {
      if (session !== undefined && !keepSandbox) await session.release()
    } catch (error) {
      throw toBoxofficeError(error)
    } finally {
      sessions?.close()
    }
  }

  /** The session of the calling run's thread, for what this backend has no method for: shells, streams, managed processes. */
  async session(): Promise<Session> {
    return (await this.#lease()).session
  }

  /** Runs a shell command, from `/workspace`. Both streams are one output, in the order in which they were written. */
  async execute(command: string): Promise<ExecuteResponse> {
    const { session, threadId, signal } = await this.#lease()
    const onEnded = () => this.#drop(threadId, session)
    const { timeout, retryWindowMs } = this.#settings
    const options = { timeout, retryWindowMs, signal, onEnded }
    const turns = this.#commands.get(session) ?? new Turns(MOST_COMMANDS)
    this.#commands.set(session, turns)
    try {
      return await turns.run(() => execute(session, command, options), signal)
    } catch (error) {
      if (this.threadId === undefined && isReleased(error)) await onEnded()
      throw error
    }
  }

  /** Writes files with their parents; each has its own result. */
  async uploadFiles(files: Array<[string, Uint8Array]>): Promise<FileUploadResponse[]> {
    return await this.#withFiles((session, patience) => uploadFiles(session, files, { ...patience, map: this.#rebase }))
  }

  /** Reads files whole; each has its own result. */
  async downloadFiles(paths: string[]): Promise<FileDownloadResponse[]> {
    const { maxDownloadBytes: maxBytes } = this.#settings
    return await this.#withFiles((session, patience) => downloadFiles(session, paths, { ...patience, map: this.#rebase, maxBytes }))
  }

  /** The entries of a directory. */
  override async ls(path: string): Promise<LsResult> {
    const rebased = this.#rebase(path)
    const entries = await this.#withFiles((session, patience) => listDirectory(session, rebased, patience))
    const back = asAsked(path, rebased)
    return { files: entries.map((entry) => ({ ...entry, path: back(entry.path) })) }
  }

  /** Lines of a file. */
  override async read(filePath: string, offset?: number, limit?: number): Promise<ReadResult> {
    const result = await super.read(forCommands(this.#rebase(filePath)), offset, limit)
    return result.error === undefined ? result : { error: `File '${filePath}' not found` }
  }

  /** Finds a literal text. */
  override async grep(pattern: string, path = '/', glob?: string | null, maxCount?: number | null): Promise<GrepResult> {
    const rebased = this.#rebase(path)
    const result = await super.grep(pattern, forCommands(rebased), glob, maxCount)
    const back = asAsked(path, rebased)
    return result.matches === undefined
      ? result
      : { ...result, matches: result.matches.map((match) => ({ ...match, path: back(fromCommands(match.path, rebased)) })) }
  }

  /** Finds files; paths are relative to `path`. */
  override async glob(pattern: string, path = '/'): Promise<GlobResult> {
    return await super.glob(pattern, forCommands(this.#rebase(path)))
  }

  /** Removes a file or a directory with all that is in it. */
  override async delete(filePath: string): Promise<DeleteResult> {
    const error = await this.#withFiles((session, patience) => deletePath(session, this.#rebase(filePath), patience))
    if (error === null) return { path: filePath, filesUpdate: null }
    return { error: error === 'file_not_found' ? `Error: '${filePath}' not found` : `Error deleting file '${filePath}': ${error}` }
  }

  /** Writes a whole file. */
  override async write(filePath: string, content: string): Promise<WriteResult> {
    return await this.#inTurn(filePath, () => super.write(filePath, content))
  }

  /** Replaces a text. Edits of one file that come at once are made one after the other, so that none undoes another. */
  override async edit(filePath: string, oldString: string, newString: string, replaceAll?: boolean): Promise<EditResult> {
    return await this.#inTurn(filePath, () => super.edit(filePath, oldString, newString, replaceAll))
  }

  readonly #rebase = (path: string): string => rebase(path, this.#settings.roots)

  async #inTurn<T>(filePath: string, work: () => Promise<T>): Promise<T> {
    const { threadId } = await this.#lease()
    return await this.#edits.run(JSON.stringify([threadId, this.#rebase(filePath)]), work)
  }

  async #withFiles<T>(work: (session: Session, patience: Patience) => Promise<T>): Promise<T> {
    const { session, threadId, signal } = await this.#lease()
    const patience = { windowMs: this.#settings.retryWindowMs, signal }
    try {
      return await work(session, patience)
    } catch (error) {
      if (!isEnded((error as { cause?: unknown }).cause)) throw error
      // Its files are gone with it, or in the next sandbox: both is an answer of that one.
      await this.#drop(threadId, session)
      return await work((await this.#lease()).session, patience)
    }
  }

  async #lease(): Promise<Lease> {
    const { threadId: ofRun, sandbox, signal } = runConfig()
    if (this.#sessions === undefined) throw new BoxofficeError('the sandbox does not run; call initialize() first', 'NOT_INITIALIZED')
    const threadId = this.threadId ?? ofRun
    if (threadId === undefined)
      throw new BoxofficeError('the run has no thread; invoke the graph with { configurable: { thread_id } }', 'THREAD_REQUIRED')
    // A block of the run is for the thread of the run, and an instance of one thread may serve runs of others.
    const session = await this.#sessions.get(threadId, { signal, sandbox: this.threadId === undefined ? sandbox : undefined })
    return { session, threadId, signal }
  }

  async #drop(threadId: string, session: Session): Promise<void> {
    await this.#sessions?.drop(threadId, session)
  }

  #openSessions(): ThreadSessions {
    const onSession = (session: Session): Promise<void> => this.#writeInitialFiles(session)
    return new ThreadSessions(this.#settings, { allowHosts: this.#allowHosts, onSession })
  }

  async #writeInitialFiles(session: Session): Promise<void> {
    const { initialFiles, retryWindowMs: windowMs } = this.#settings
    // A thread that comes back has what its agent made of these files.
    const overwrite = this.threadId !== undefined && this.#session === undefined
    const results = await uploadFiles(session, Object.entries(initialFiles), { windowMs, map: this.#rebase, overwrite })
    const failed = results.find(({ error }) => error !== null)
    if (failed !== undefined) throw new BoxofficeError(`initialFiles: ${failed.path}: ${failed.error}`, 'FILE_OPERATION_FAILED')
    // The one that close() ends: after a sandbox that was lost it is another one.
    if (this.threadId !== undefined) this.#session = session
  }
}

const refuse = (unknown: readonly string[]): void => {
  if (unknown.length > 0) throw new BoxofficeError(`there is no option ${unknown.map((name) => `"${name}"`).join(', ')}`, 'INVALID_REQUEST')
}

const isReleased = (error: unknown): boolean => error instanceof BoxofficeError && isCode(error.cause, 'SESSION_RELEASED')
