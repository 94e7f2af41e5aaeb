import { EGRESS_PORT, type EgressPolicy, type SessionSecretsResponse, secretsOfPolicy } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { fileCall } from '../../files/files.ts'
import type { Sandbox } from '../../sandbox/sandbox.ts'
import type { SupervisorLink } from '../../supervisor/link.ts'
import { parseHost } from '../address/parse-host.ts'
import type { EgressDecision } from '../egress-types.ts'
import { forwardHttp } from '../http/forward-http.ts'
import type { HostMirror } from '../mirrors/host-mirrors.ts'
import { compilePolicy } from '../policy/egress-rules.ts'
import { createEgressProxy, type EgressProxy, type EgressProxyOptions } from '../proxy/create-egress-proxy.ts'
import { sentinelOf } from '../secrets/placeholder.ts'
import { createSessionSecrets, type SessionSecrets } from '../secrets/session-secrets.ts'
import { createTlsOpener } from '../tls/open-tls.ts'
import type { SandboxCa } from '../tls/sandbox-ca.ts'
import { createDecisionJournal } from './decision-journal.ts'
import { egressEnvironment, HOME_DIRECTORIES, homeEnvironment } from './environment.ts'
import { writeTrustBundle } from './trust-bundle.ts'

/** What all sandboxes of an agent have in common on their way out. */
export type EgressSettings = Pick<EgressProxyOptions, 'resolve' | 'exceptions' | 'upstream'> & {
  /** Authorities that origins may have beside those of the machine, PEM; asked for when there is a sandbox with egress. */
  authorities?: () => readonly string[]
  /** What package clients of this machine are configured with; sandboxes are told of those that their policy leads to. */
  mirrors?: readonly HostMirror[]
  /** Hears of each decision of each sandbox. */
  onDecision?: (decision: EgressDecision) => void
  /** Asks the broker for values of secrets of a session; without it there are none. */
  secretsOf?: (sessionId: string, names: readonly string[]) => Promise<SessionSecretsResponse['secrets']>
}

export type SandboxEgressParts = {
  sandbox: Sandbox
  policy: EgressPolicy
  /** On the host; what is written there is seen in the sandbox at `/.boxoffice/link`. */
  linkDirectory: string
  settings: EgressSettings
  log: Logger
}

const READY_WITHIN_MS = 10_000

/** The way out of one sandbox: its proxy, its authority, and what its programs have to know of them. */
export class SandboxEgress {
  readonly #parts: SandboxEgressParts
  readonly #tell: ReturnType<typeof createDecisionJournal>
  /** Values in memory alone, asked for when a connection needs them. */
  readonly #secrets: SessionSecrets
  #policy: EgressPolicy
  /** What the policy says to programs; made when one is first started under it. */
  #policyVariables: Record<string, string> | undefined
  #ca: Promise<SandboxCa> | undefined
  /** Made for the first connection: most sandboxes have none for most of their time. */
  #proxy: Promise<EgressProxy> | undefined
  #hasHome = true
  #isClosed = false

  constructor(parts: SandboxEgressParts) {
    this.#parts = parts
    this.#policy = parts.policy
    const { sandbox, settings, log } = parts
    const fetch = async (names: readonly string[]) => settings.secretsOf?.(sandbox.sessionId, names) ?? {}
    this.#secrets = createSessionSecrets({ fetch, log: log.child({ sandbox_id: sandbox.id }) })
    this.#tell = createDecisionJournal((data) => parts.sandbox.note({ type: 'egress', data }))
  }

  /** Variables of every process of the sandbox. */
  get environment(): Record<string, string> {
    const { workspacePath, isolation } = this.#parts.sandbox
    this.#policyVariables ??= { ...this.#placeholders(), ...this.#mirrorVariables() }
    const home = this.#hasHome ? homeEnvironment(workspacePath, isolation) : {}
    return { ...this.#policyVariables, ...egressEnvironment(), ...home }
  }

  /** Takes the connections of a supervisor that is to dial, and makes the authority that its programs are to trust. */
  async attach(link: SupervisorLink): Promise<void> {
    link.onEgress((connection) => {
      const accept = async (): Promise<void> => {
        const [proxy] = await Promise.all([this.#open(), this.#secrets.want(secretsOfPolicy(this.#policy))])
        proxy.accept(connection)
      }
      accept().catch((err: unknown) => {
        this.#warn(err, 'a connection of a sandbox could not be taken')
        connection.destroy()
      })
    })
    link.onConnection((connected) => {
      if (connected) void this.#listen(link)
    })
    const { certificate } = await this.#authority()
    // Without it only hosts with rules cannot be reached.
    const { linkDirectory, settings } = this.#parts
    await writeTrustBundle(linkDirectory, certificate, settings.authorities?.()).catch((error: unknown) =>
      this.#warn(error, 'what programs of a sandbox trust could not be written'),
    )
  }

  /** Returns when programs of a sandbox that has just been started can connect. */
  async ready(link: SupervisorLink): Promise<void> {
    await Promise.all([this.#listen(link), this.#makeHome()])
  }

  /** Connections that the policy does not allow are cut. Throws INVALID_REQUEST where it cannot be read. */
  async setPolicy(policy: EgressPolicy): Promise<void> {
    this.#policy = policy
    this.#policyVariables = undefined
    if (this.#proxy !== undefined) (await this.#proxy).setPolicy(policy)
  }

  close(): void {
    this.#isClosed = true
    this.#secrets.close()
    void this.#proxy?.then((proxy) => proxy.close())
  }

  #authority(): Promise<SandboxCa> {
    // What makes certificates is a tenth of an agent's start, and most agents have no sandbox that needs it yet.
    this.#ca ??= import('../tls/sandbox-ca.ts').then(({ createSandboxCa }) => createSandboxCa(this.#parts.sandbox.id))
    return this.#ca
  }

  #open(): Promise<EgressProxy> {
    const make = async (): Promise<EgressProxy> => {
      const { authorities, onDecision, secretsOf: _, ...settings } = this.#parts.settings
      const ca = await this.#authority()
      const proxy = createEgressProxy({
        ...settings,
        policy: this.#policy,
        secrets: (name) => this.#secrets.get(name),
        sentinelOf: (env) => sentinelOf(this.#parts.sandbox.id, env),
        forwardHttp,
        openTls: createTlsOpener({ ca, forwardHttp, ...(authorities && { authorities: authorities() }) }),
        onDecision: (decision) => {
          onDecision?.(decision)
          const { at: __, hint: ___, ...told } = decision
          this.#tell(told)
        },
      })
      if (this.#isClosed) proxy.close()
      return proxy
    }
    this.#proxy ??= make()
    return this.#proxy
  }

  #placeholders(): Record<string, string> {
    return Object.fromEntries(this.#policy.placeholders.map(({ env }) => [env, sentinelOf(this.#parts.sandbox.id, env)]))
  }

  #mirrorVariables(): Record<string, string> {
    const { mirrors = [] } = this.#parts.settings
    if (mirrors.length === 0) return {}
    const rules = compilePolicy(this.#policy, { secrets: () => undefined, sentinelOf: () => '', mirrors })
    const isReached = ({ host, port }: HostMirror): boolean => {
      const parsed = parseHost(host)
      return parsed !== undefined && rules.decide(parsed, port, port === 443 ? 'tls' : 'http').kind !== 'denied'
    }
    return Object.assign({}, ...mirrors.filter(isReached).map(({ variables }) => variables))
  }

  async #listen(link: SupervisorLink): Promise<void> {
    await link.listenForEgress(EGRESS_PORT).catch((error: unknown) => this.#warn(error, 'a sandbox has no way out'))
  }

  /** Where the workspace cannot be written to, HOME stays where it is. */
  async #makeHome(): Promise<void> {
    const { sandbox } = this.#parts
    const signal = AbortSignal.timeout(READY_WITHIN_MS)
    for (const path of HOME_DIRECTORIES) {
      const operation = { op: 'mkdir', root: 'workspace', path, parents: true, mode: 0o700 }
      await fileCall(sandbox, operation, { given: path, signal }).catch(() => {
        this.#hasHome = false
      })
    }
  }

  #warn(err: unknown, message: string): void {
    const { log, sandbox } = this.#parts
    log.warn({ err, sandbox_id: sandbox.id }, message)
  }
}
