import type { Binding } from '@boxoffice/protocol'
import { isCode } from '../base/errors.ts'
import type { Client, ConnectOptions } from '../client.ts'
import { connect } from '../connect.ts'
import type { Session } from '../session.ts'
import { type ComputeCreateOptions, checkCreateOptions, labelsOf, unsupported } from './create-options.ts'
import { ComputeSandbox } from './sandbox.ts'

export type BoxofficeComputeOptions = ConnectOptions & {
  /** The broker. */
  url: string
  /** The way to sandboxes; default as `client.session` has it. */
  relay?: 'auto' | 'always' | 'never' | undefined
}

/** What the ids of sandboxes begin with that have no thread of the caller's own. */
const PREFIX = 'computesdk/'
const LABEL = 'surface'
const SURFACE = 'computesdk'

type Defaults = Pick<ComputeCreateOptions, 'timeout' | 'envs' | 'directory'>

/**
 * A provider for ComputeSDK 4: `compute({ provider: boxoffice({ url, apiKey }) })`. The id of a sandbox is its thread, so that every
 * other client of Boxoffice can use the same sandbox.
 */
export class BoxofficeCompute {
  readonly name = 'boxoffice'
  readonly sandbox: {
    create(options?: ComputeCreateOptions): Promise<ComputeSandbox>
    /** Null where the thread has no sandbox. */
    getById(sandboxId: string): Promise<ComputeSandbox | null>
    /** Those that were made by `create`; nothing is woken. */
    list(): Promise<ComputeSandbox[]>
    destroy(sandboxId: string): Promise<void>
  }
  /** There are none: without this ComputeSDK would not say why. */
  readonly snapshot: { create(sandboxId: string): Promise<never>; list(): Promise<never>; delete(snapshotId: string): Promise<never> }
  readonly #client: Client
  readonly #relay: BoxofficeComputeOptions['relay']

  constructor({ url, relay, ...options }: BoxofficeComputeOptions) {
    this.#client = connect(url, options as ConnectOptions)
    this.#relay = relay
    this.sandbox = {
      create: (given = {}) => this.#create(given),
      getById: (sandboxId) => this.#getById(sandboxId),
      list: () => this.#list(),
      destroy: (sandboxId) => this.#release(sandboxId),
    }
    const refuse = async (): Promise<never> => {
      throw unsupported('snapshots')
    }
    this.snapshot = { create: refuse, list: refuse, delete: refuse }
  }

  async #create(given: ComputeCreateOptions): Promise<ComputeSandbox> {
    const { threadId: own, name = crypto.randomUUID(), namespace, templateId, metadata, signal, ...defaults } = checkCreateOptions(given)
    const threadId = own ?? `${PREFIX}${namespace === undefined ? '' : `${namespace}/`}${name}`
    const mode = own === undefined ? 'create_only' : 'ensure'
    const labels = { ...labelsOf(metadata), [LABEL]: SURFACE }
    try {
      const session = await this.#client.session({ threadId, mode, profile: templateId, labels, relay: this.#relay, signal })
      return this.#sandboxOf(threadId, async () => session, defaults)
    } catch (error) {
      // Only what nobody else can have: a thread or a name of the caller's may have been there before.
      if (signal?.aborted && own === undefined && given.name === undefined) await this.#release(threadId).catch(() => {})
      throw error
    }
  }

  async #getById(threadId: string): Promise<ComputeSandbox | null> {
    try {
      const session = await this.#attach(threadId)
      return this.#sandboxOf(threadId, async () => session)
    } catch (error) {
      if (isCode(error, 'BINDING_NOT_FOUND')) return null
      throw error
    }
  }

  async #list(): Promise<ComputeSandbox[]> {
    const sandboxes: ComputeSandbox[] = []
    for await (const { scope, labels } of this.#client.sessions.walk({ scopeType: 'thread' })) {
      if (labels[LABEL] !== SURFACE) continue
      let session: Promise<Session> | undefined
      sandboxes.push(this.#sandboxOf(scope.id, () => (session ??= this.#attach(scope.id))))
    }
    return sandboxes
  }

  #attach(threadId: string): Promise<Session> {
    return this.#client.session({ threadId, mode: 'get', relay: this.#relay })
  }

  #sandboxOf(threadId: string, session: () => Promise<Session>, defaults: Defaults = {}): ComputeSandbox {
    const binding = () => this.#bindingOf(threadId)
    return new ComputeSandbox({ threadId, session, binding, release: () => this.#release(threadId), defaults })
  }

  async #bindingOf(threadId: string): Promise<Binding | undefined> {
    const [found] = await this.#client.sessions.list({ scopeType: 'thread', scopeId: threadId })
    return found
  }

  async #release(threadId: string): Promise<void> {
    const found = await this.#bindingOf(threadId)
    if (found !== undefined) await this.#client.sessions.release(found.id)
  }
}

/** The provider, as other providers of ComputeSDK are made. Nothing is sent before the first call. */
export const boxoffice = (options: BoxofficeComputeOptions): BoxofficeCompute => new BoxofficeCompute(options)
