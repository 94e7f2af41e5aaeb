import { type Client, connect, type Session } from '@boxoffice/client'
import { BoundedCache } from '@boxoffice/kit/bounded-cache'
import { checkSessionId, verifyBootstrap } from './bootstrap.ts'
import { toBoxofficeError } from './errors.ts'
import type { Settings } from './options.ts'
import { patiently } from './patience.ts'

/** A session holds no connection, so that one that is forgotten is only negotiated again. */
const MOST_THREADS = 1_000

export type AcquireOptions = { sandbox?: unknown; signal?: AbortSignal | undefined }

/** The sessions of threads, each acquired once however many ask for it at the same time. */
export class ThreadSessions {
  readonly #settings: Settings
  readonly #allowHosts: readonly string[]
  readonly #onSession: (session: Session) => Promise<void>
  readonly #sessions = new BoundedCache<string, Promise<Session>>(MOST_THREADS)
  readonly #life = new AbortController()

  /** `onSession` prepares a session before anybody gets it. */
  constructor(
    settings: Settings,
    { allowHosts, onSession }: { allowHosts: readonly string[]; onSession(session: Session): Promise<void> },
  ) {
    this.#settings = settings
    this.#allowHosts = allowHosts
    this.#onSession = onSession
  }

  /** The session of a thread; its sandbox is started if there is none. */
  async get(threadId: string, { sandbox, signal }: AcquireOptions = {}): Promise<Session> {
    const known = this.#sessions.get(threadId)
    const acquiring = known ?? this.#acquire(threadId, sandbox)
    if (known === undefined) {
      this.#sessions.set(threadId, acquiring)
      acquiring.catch(() => this.#forget(threadId, acquiring))
    }
    const session = await unlessAborted(acquiring, signal)
    checkSessionId(sandbox, session)
    return session
  }

  /** Lets go of a session that has ended, so that the next call gets another one. */
  async drop(threadId: string, ended: Session): Promise<void> {
    const known = this.#sessions.get(threadId)
    if (known !== undefined && (await known.catch(() => undefined)) === ended) this.#forget(threadId, known)
  }

  /** Ends what runs through these sessions; the sessions themselves stay. */
  close(): void {
    this.#life.abort(new DOMException('the sandbox was closed', 'AbortError'))
    this.#sessions.clear()
  }

  #forget(threadId: string, entry: Promise<Session>): void {
    if (this.#sessions.get(threadId) === entry) this.#sessions.delete(threadId)
  }

  async #acquire(threadId: string, sandbox: unknown): Promise<Session> {
    const { retryWindowMs, session: options } = this.#settings
    const { signal } = this.#life
    try {
      const client = this.#connect(sandbox)
      const session = await patiently(() => client.session(threadId, options), { windowMs: retryWindowMs, signal })
      // Only a broker's own answer has a binding.
      if (session.details.binding === undefined && usable(sandbox)) await verifyBootstrap(sandbox, threadId, session)
      await this.#onSession(session)
      return session
    } catch (error) {
      throw toBoxofficeError(error)
    }
  }

  #connect(sandbox: unknown): Client {
    const { url, auth, retryWindowMs } = this.#settings
    const bootstrap = usable(sandbox) && this.#allowHosts.length > 0 ? { bootstrap: sandbox, allowHosts: this.#allowHosts } : {}
    return connect(url, { ...auth, ...bootstrap, reconnectWindowMs: retryWindowMs, signal: this.#life.signal })
  }
}

const usable = (sandbox: unknown): boolean => sandbox !== null && typeof sandbox === 'object' && 'token' in sandbox

/** One who waits may leave; who else waits for the same session stays. */
const unlessAborted = <T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> => {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(signal.reason)
    if (signal.aborted) return aborted()
    signal.addEventListener('abort', aborted, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted))
  })
}
