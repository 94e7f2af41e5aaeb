import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CreateSandboxRequest, Profile } from '@boxoffice/protocol'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { createRevocationStore, type RevocationStore } from '../../../src/auth/revocations.ts'
import { createJournal, type Journal } from '../../../src/broker-link/journal.ts'
import { createCapacity } from '../../../src/capacity/capacity.ts'
import { openMachine } from '../../../src/capacity/machine.ts'
import { openDataDirectory } from '../../../src/data-dir/data-directory.ts'
import { createLayout } from '../../../src/data-dir/layout.ts'
import { claimOwners, createUids } from '../../../src/data-dir/uids.ts'
import type { EgressSettings } from '../../../src/egress/sandbox/sandbox-egress.ts'
import { createDiskFloor } from '../../../src/host/disk-floor.ts'
import { createMountPolicy } from '../../../src/mounts/policy.ts'
import type { Provider } from '../../../src/sandbox/provider.ts'
import type { LiveSandbox } from '../../../src/sandboxes/live/live-sandbox.ts'
import { createSandboxManager, type SandboxManager } from '../../../src/sandboxes/manager.ts'
import { openRecovery, type Recovery } from '../../../src/sandboxes/recovery.ts'

export const silent = pino({ level: 'silent' })
/** Below which tests mount directories of the host. */
export const MOUNT_ROOT = '/tmp/bxo-mounts'
const ROOTS = [MOUNT_ROOT]
export const IMAGE = 'boxoffice/sandbox:latest'

export type Kind = 'docker' | 'kubernetes' | 'bubblewrap' | 'none'
export type OpenProvider = (directory: { path: string; installId: string }, instanceId: string) => Promise<Provider>

export const request = (fields: Partial<Profile> = {}, workspace: string | null = null): CreateSandboxRequest =>
  CreateSandboxRequest.parse({ tenant_id: 'tenant', profile: Profile.parse({ name: 'test', ...fields }), workspace_id: workspace })

/** The host side of an agent without broker and listeners: a provider, a manager, a data directory. */
export class Host {
  readonly provider: Provider
  readonly manager: SandboxManager
  readonly recovery: Recovery
  readonly revocations: RevocationStore
  /** What has happened in its sandboxes. */
  readonly journal: Journal
  readonly dataDirectory: string
  readonly installId: string
  readonly #open: OpenProvider
  readonly #release: () => Promise<void>

  private constructor(parts: {
    provider: Provider
    manager: SandboxManager
    recovery: Recovery
    revocations: RevocationStore
    journal: Journal
    dataDirectory: string
    installId: string
    open: OpenProvider
    release: () => Promise<void>
  }) {
    this.provider = parts.provider
    this.manager = parts.manager
    this.recovery = parts.recovery
    this.revocations = parts.revocations
    this.journal = parts.journal
    this.dataDirectory = parts.dataDirectory
    this.installId = parts.installId
    this.#open = parts.open
    this.#release = parts.release
  }

  static async start(open: OpenProvider, dataDirectory?: string, log = silent, egress: EgressSettings = {}): Promise<Host> {
    const directory = await openDataDirectory(dataDirectory ?? (await mkdtemp('/tmp/bxh-')), undefined)
    const instanceId = Math.random().toString(16).slice(2, 14).padEnd(12, '0')
    const provider = await open(directory, instanceId)
    const layout = await createLayout(directory.path)
    const uids = createUids(directory.uidBlock)
    await claimOwners(uids, join(directory.path, 'workspaces'))
    const { supervisorPath, installId, path, release } = directory
    const journal = createJournal(new Registry())
    const revocations = createRevocationStore(() => Date.now() / 1000)
    const manager = createSandboxManager({
      provider: () => provider,
      layout,
      uids,
      supervisorPath,
      defaultImage: IMAGE,
      capacity: createCapacity({
        machine: openMachine(),
        disk: createDiskFloor({ dataDirectory: path, engineDirectory: () => undefined }),
        reserve: {},
      }),
      mountPolicy: await createMountPolicy({ allowedRoots: ROOTS, blocked: [path] }),
      defaultHostWorkspace: undefined,
      poolConcurrency: 2,
      egress,
      journal,
      sessionEnd: revocations.deniedSession,
      log,
    })
    const recovery = await openRecovery({
      manager,
      revocations,
      dataDirectory: path,
      log: silent,
    })
    await recovery.adopt(provider)
    return new Host({ provider, manager, recovery, revocations, journal, dataDirectory: path, installId, open, release })
  }

  async ensure(session: string, fields: Partial<Profile> = {}, workspace: string | null = null): Promise<LiveSandbox> {
    return this.find((await this.manager.ensureForSession(session, request(fields, workspace))).sandbox_id)
  }

  find(id: string): LiveSandbox {
    const sandbox = this.manager.get(id)
    if (sandbox === undefined) throw new Error(`no sandbox ${id}`)
    return sandbox as LiveSandbox
  }

  /** What is left on disk of sandboxes and workspaces. */
  async leftovers(): Promise<string[]> {
    const inDirectory = async (name: string) =>
      (await readdir(join(this.dataDirectory, name)).catch(() => [])).map((entry) => `${name}/${entry}`)
    return [...(await inDirectory('sandboxes')), ...(await inDirectory('workspaces')), ...(await inDirectory('local'))]
  }

  /** The agent's process ends and another one starts on the same data; sandboxes stay. */
  async restart(): Promise<Host> {
    await this.manager.close()
    await this.provider.close()
    await this.#release()
    return Host.start(this.#open, this.dataDirectory)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async close(): Promise<void> {
    await this.manager.close({ destroyAll: true })
    await this.provider.close()
    await this.#release()
    await rm(this.dataDirectory, { recursive: true, force: true })
  }
}

/** Host processes that belong to a uid; not those that are dead and wait for their parent to notice. */
export const processesOf = async (uid: number): Promise<string[]> => {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const statuses = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')))
  return statuses
    .filter((status) => new RegExp(`^Uid:\\s+${uid}\\s`, 'm').test(status) && !/^State:\s+[ZX]/m.test(status))
    .map((status) => status.slice(0, 40))
}
