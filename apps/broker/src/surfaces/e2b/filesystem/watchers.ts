import { randomUUID } from 'node:crypto'
import { BoxofficeError } from '@boxoffice/protocol'
import { z } from 'zod'
import type { DataplaneClient } from '../../../dataplane/client.ts'
import type { WatchSocket } from '../../../dataplane/watch-socket.ts'
import type { Opened } from '../call/access-tokens.ts'
import { changesLost, openWatch, type WatchEvent, type WatchRequest } from './watches.ts'

export const WatcherRequest = z.object({ watcherId: z.string().max(100).default('') })

/** Watchers at most of one sandbox, ended ones too. The agent allows 8 that watch. */
const MAX_WATCHERS = 16
/** Changes at most that wait for a poll, and characters of their names. More end the watcher. */
const MAX_EVENTS = 4096
const MAX_NAME_CHARACTERS = 256 * 1024
const IDLE_MS = 10 * 60_000

/**
 * Watchers of E2B's blocking clients, which poll (contract 7.3): `CreateWatcher`, `GetWatcherEvents`, `RemoveWatcher`. Each is a watch of
 * the dataplane whose changes wait in this broker. One that nobody polls for 10 minutes is removed.
 */
export class Watchers {
  readonly #dataplane: DataplaneClient
  /** By session, then by id. */
  readonly #watchers = new Map<string, Map<string, Watcher>>()

  constructor(dataplane: DataplaneClient) {
    this.#dataplane = dataplane
  }

  /** RATE_LIMITED: the sandbox has too many. */
  async create(opened: Opened, request: WatchRequest): Promise<{ watcherId: string }> {
    const ofSession = this.#watchers.get(opened.session.id) ?? new Map<string, Watcher>()
    if (ofSession.size >= MAX_WATCHERS)
      throw new BoxofficeError('RATE_LIMITED', `a sandbox has at most ${MAX_WATCHERS} watchers; remove one`, { retryAfter: 1 })
    const watcherId = randomUUID()
    const watcher = new Watcher(() => this.#forget(opened, watcherId))
    this.#watchers.set(opened.session.id, ofSession.set(watcherId, watcher))
    try {
      watcher.socket = await openWatch(this.#dataplane, opened, request, watcher)
    } catch (thrown) {
      watcher.remove()
      throw thrown
    }
    return { watcherId }
  }

  /** What has changed since the last call. A watcher that has failed says so once what it saw has been told. */
  events(opened: Opened, watcherId: string): { events: WatchEvent[] } {
    return { events: this.#find(opened, watcherId).take() }
  }

  remove(opened: Opened, watcherId: string): void {
    this.#find(opened, watcherId).remove()
  }

  close(): void {
    for (const ofSession of this.#watchers.values()) for (const watcher of [...ofSession.values()]) watcher.remove()
  }

  #find({ session, actor }: Opened, watcherId: string): Watcher {
    // It watches by the rights of who made it.
    if (!actor.capabilities.includes('fs_read'))
      throw new BoxofficeError('CAPABILITY_DENIED', 'fs_read not granted: the holder of this X-Access-Token lacks the capability')
    const found = this.#watchers.get(session.id)?.get(watcherId)
    if (found === undefined) throw new BoxofficeError('NOT_FOUND', 'there is no such watcher of this sandbox, or nobody polled it')
    return found
  }

  #forget({ session }: Opened, watcherId: string): void {
    const ofSession = this.#watchers.get(session.id)
    ofSession?.delete(watcherId)
    if (ofSession?.size === 0) this.#watchers.delete(session.id)
  }
}

class Watcher {
  readonly #forget: () => void
  readonly #idle: NodeJS.Timeout
  #socket: WatchSocket | undefined
  #events: WatchEvent[] = []
  #nameCharacters = 0
  #error: BoxofficeError | undefined
  #isOver = false

  constructor(forget: () => void) {
    this.#forget = forget
    this.#idle = setTimeout(() => this.remove(), IDLE_MS).unref()
  }

  set socket(socket: WatchSocket) {
    this.#socket = socket
    if (this.#isOver) socket.leave()
  }

  event(event: WatchEvent): void {
    if (this.#isOver) return
    this.#nameCharacters += event.name.length
    if (this.#events.length === MAX_EVENTS || this.#nameCharacters > MAX_NAME_CHARACTERS) return this.ended(changesLost())
    this.#events.push(event)
  }

  ended(error?: BoxofficeError): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#error = error
    this.#socket?.leave()
  }

  take(): WatchEvent[] {
    this.#idle.refresh()
    const events = this.#events
    this.#events = []
    this.#nameCharacters = 0
    if (events.length === 0 && this.#error !== undefined) {
      this.remove()
      throw this.#error
    }
    return events
  }

  remove(): void {
    clearTimeout(this.#idle)
    this.ended()
    this.#forget()
  }
}
