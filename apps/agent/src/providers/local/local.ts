import { chown, mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { isFast } from '@boxoffice/node-http'
import { BoxofficeError, SANDBOX_ID_PATTERN } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import { createPrefork, type PreforkedProcess } from '../../fast-io/prefork.ts'
import { descendantsOf, pidsWithArgumentEnd, signalPid } from '../../host/process-table.ts'
import { closedOnTheWay } from '../../mounts/ownership.ts'
import type { PrewarmSpec, Provider, ProviderCapabilities, SandboxHandle, SandboxSpec } from '../../sandbox/provider.ts'
import { supervisorArguments } from '../../sandbox/supervisor-arguments.ts'
import { bubblewrapArguments, DEVICES, generateEtc, NAMESPACES, preforkArguments, SYSTEM_PATHS, sandboxArguments } from './bubblewrap.ts'
import { openCgroups, removeInstallGroups } from './cgroups.ts'
import { findBubblewrap } from './detect.ts'
import { createHostPathMap, SAME_PATHS } from './host-path-map.ts'
import { type LocalSandbox, localSandbox } from './local-sandbox.ts'
import { countsApart } from './rlimits.ts'
import { LOG_NAME } from './spawn.ts'
import { type LocalState, stateFiles } from './state-file.ts'

export type LocalProviderOptions = {
  /** Everything the provider keeps is below it; absolute. */
  dataDirectory: string
  installId: string
  /** `auto` takes bubblewrap where it works. */
  isolation: 'auto' | 'bubblewrap' | 'none'
  /** Sandboxes run as the user of the agent, which can go everywhere that they must. */
  sameUser?: boolean
  /** Why isolation `none` may not be used here; refused before anything is opened or said of it. */
  unsafeRefused?: string | null
  log: Logger
}

const LOOKS_AT_ONCE = 32

/** Sandboxes without a container engine: bubblewrap, or plain processes where there is none. */
export const createLocalProvider = async (options: LocalProviderOptions): Promise<Provider> => {
  const { dataDirectory, installId, log } = options
  const asRoot = process.getuid?.() === 0
  const bubblewrap = options.isolation === 'none' ? undefined : await findBubblewrap(asRoot)
  if (bubblewrap !== undefined && 'reason' in bubblewrap && options.isolation === 'bubblewrap') {
    throw new BoxofficeError('BACKEND_UNAVAILABLE', bubblewrap.reason)
  }
  const bwrap = bubblewrap !== undefined && 'path' in bubblewrap ? bubblewrap.path : undefined
  if (bwrap === undefined && typeof options.unsafeRefused === 'string') throw new Error(options.unsafeRefused)

  const stateDirectory = join(dataDirectory, 'local')
  const etcDirectory = join(dataDirectory, 'etc')
  await mkdir(stateDirectory, { recursive: true, mode: 0o700 })
  if (bwrap !== undefined) await generateEtc(etcDirectory)
  const hostPaths = options.sameUser ? SAME_PATHS : await createHostPathMap(dataDirectory, installId)
  const cgroups = openCgroups(installId)
  const bootId = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
  const files = stateFiles(stateDirectory)
  const sandboxes = new Map<string, LocalSandbox>()
  const groups = new Set<string>()
  const unreadable = new Map<string, unknown>()
  for (const id of await files.ids()) {
    const state = await files.read(id).catch((error: unknown) => void unreadable.set(id, error))
    if (state !== undefined) groups.add(state.group)
  }
  // Without its file a sandbox can neither be found again nor be ended by the broker: it ends here, by what still names it.
  const ended = (await cgroups?.sweep(groups)) ?? []
  for (const [id, err] of unreadable) {
    await endByName(id)
    await files.remove(id)
    log.warn({ sandbox_id: id, err }, 'the state file of a sandbox could not be read; the sandbox was ended')
  }
  if (ended.length > 0) log.warn({ groups: ended }, 'processes that belonged to no known sandbox were ended')

  const isolation = bwrap === undefined ? 'none' : 'bubblewrap'
  const byRlimit = bwrap !== undefined && cgroups?.limits.includes('pids_limit') !== true && countsApart()
  const capabilities: ProviderCapabilities = {
    isolation,
    suspend: ['freeze', 'stop'],
    limits: [
      ...(cgroups?.limits ?? []),
      ...(byRlimit ? (['pids_limit'] as const) : []),
      ...(bwrap === undefined ? [] : (['read_only_rootfs', 'tmp_size'] as const)),
    ],
    network: bwrap === undefined,
    egress: bwrap !== undefined,
    extraMounts: bwrap !== undefined,
    ociRuntimes: [],
    images: false,
  }

  // What holds the number of processes without a control group has to be known when bubblewrap starts, and is the profile's.
  const prefork =
    cgroups === undefined || bwrap === undefined || byRlimit || !isFast('prefork')
      ? undefined
      : createPrefork(cgroups, bwrap, [...SYSTEM_PATHS, dataDirectory, dirname(hostPaths.path(stateDirectory))])

  const idsOf = ({ uid, gid }: Pick<SandboxSpec, 'uid' | 'gid'>) => ({ uid: asRoot ? uid : null, gid: asRoot ? gid : null })

  const pathsOf = (id: string, { supervisorPath, linkDirectory }: Pick<SandboxSpec, 'supervisorPath' | 'linkDirectory'>) => ({
    etc: hostPaths.path(etcDirectory),
    supervisor: hostPaths.path(supervisorPath),
    link: hostPaths.path(linkDirectory),
    oomFile: cgroups?.group(id).oomFile,
    byRlimit,
  })

  const reachable = (spec: SandboxSpec): SandboxSpec => ({ ...spec, workspaceDirectory: hostPaths.path(spec.workspaceDirectory) })

  const commandFor = (id: string, spec: SandboxSpec): LocalState['command'] => {
    const paths = pathsOf(id, spec)
    const { workspaceDirectory: workspace } = reachable(spec)
    if (bwrap !== undefined) return { file: bwrap, arguments: bubblewrapArguments(paths, reachable(spec)), directory: '/', ...idsOf(spec) }
    const home = ['--home', hostPaths.path(homeOf(spec))]
    const oom = paths.oomFile === undefined ? [] : ['--oom-file', paths.oomFile]
    return {
      file: paths.supervisor,
      arguments: [
        ...['--socket', join(paths.link, 'link.sock'), '--workspace', workspace, ...home, ...oom],
        ...supervisorArguments(spec.profile),
      ],
      directory: workspace,
      ...idsOf(spec),
    }
  }

  const adopt = (state: LocalState): LocalSandbox => {
    const sandbox = localSandbox({
      state,
      isolation,
      group: cgroups?.group(state.group),
      files,
      bootId,
      directory: dirname(state.link_directory),
    })
    sandboxes.set(state.id, sandbox)
    return sandbox
  }
  const adoptById = async (id: string): Promise<LocalSandbox | undefined> => {
    const state = await files.read(id).catch((err: unknown) => void log.warn({ sandbox_id: id, err }, 'a state file cannot be read'))
    // It may have ended meanwhile, or be one that has been made meanwhile.
    return state === undefined ? undefined : (sandboxes.get(id) ?? adopt(state))
  }
  const known = (handle: SandboxHandle): LocalSandbox => {
    const sandbox = sandboxes.get(handle.id)
    if (sandbox === undefined) throw new BoxofficeError('SANDBOX_LOST', `sandbox ${handle.id} is not there any more`)
    return sandbox
  }

  const preforkProcess = async (id: string, spec: PrewarmSpec): Promise<void> => {
    if (prefork === undefined) return
    const order = { namespaces: NAMESPACES, devices: DEVICES, arguments: preforkArguments(pathsOf(id, spec)) }
    await prefork.make(id, spec.supervisorPath, { ...order, ...idsOf(spec), log: join(spec.directory, LOG_NAME) })
  }

  /**
   * The sandbox's, made now if there is none. It sees nothing of the host that only this sandbox mounts, and its supervisor has the
   * arguments that most have.
   */
  const preforkedFor = async (id: string, spec: SandboxSpec): Promise<PreforkedProcess | undefined> => {
    if (supervisorArguments(spec.profile).length > 0) return undefined
    const own = `${dataDirectory}/`
    if (![spec.workspaceDirectory, ...spec.mounts.map(({ source }) => source)].every((path) => path.startsWith(own))) return undefined
    const ready = prefork?.take(id)
    if (ready !== undefined) return ready
    await preforkProcess(id, { ...spec, directory: dirname(spec.linkDirectory) })
    return prefork?.take(id)
  }

  // Last: what cannot be opened is tried again every few seconds, and would say it each time.
  if (bwrap === undefined) {
    const why = bubblewrap !== undefined && 'reason' in bubblewrap ? bubblewrap.reason : 'asked for with --isolation none'
    log.warn({ why }, 'ISOLATION IS "none": what runs in a sandbox runs as a plain process of this host and can read its files')
  }
  return {
    name: 'local',
    capabilities,
    sandboxes: {
      async create(id, spec, signal) {
        signal.throwIfAborted()
        if (asRoot) await requireReachable(spec, dataDirectory)
        const preforked = await preforkedFor(id, spec)
        const sandbox = adopt({
          id,
          profile_hash: spec.profileHash,
          boot_id: bootId,
          stopped: false,
          monitor: null,
          supervisor: null,
          command: commandFor(id, spec),
          link_directory: spec.linkDirectory,
          group: id,
        })
        try {
          cgroups?.group(id).create(spec.profile)
          if (bwrap === undefined) await makeHome(spec)
          return await sandbox.start(preforked && (() => preforked.run(sandboxArguments(pathsOf(id, spec), reachable(spec)))))
        } catch (error) {
          await sandbox.destroy()
          sandboxes.delete(id)
          throw error
        }
      },
      async *list() {
        let looked = 0
        for (const id of await files.ids()) {
          // Each look is a few calls to the kernel that wait for nothing: between them the dataplane has its turn.
          if (++looked % LOOKS_AT_ONCE === 0) await setImmediate()
          const sandbox = sandboxes.get(id) ?? (await adoptById(id))
          if (sandbox !== undefined) yield await sandbox.handle()
        }
      },
      inspect: async (handle) => sandboxes.get(handle.id)?.handle(),
      suspend: (handle, mode) => known(handle)[mode](),
      resume: (handle) => known(handle).resume(),
      async destroy(handle) {
        const sandbox = sandboxes.get(handle.id)
        if (sandbox === undefined) return
        await sandbox.destroy()
        sandboxes.delete(handle.id)
      },
    },
    host: {
      workspacePath: (directory) => (bwrap === undefined ? hostPaths.path(directory) : '/workspace'),
      inside: async (handle) => sandboxes.get(handle.id)?.inside(),
    },
    prewarm: {
      async make(id, spec) {
        await files.prewarm(spec.directory)
        await preforkProcess(id, spec)
      },
      discard: (id) => prefork?.drop(id),
    },
    probe: async () => ({ available: true }),
    async close() {
      await prefork?.close()
      removeInstallGroups(installId)
      await hostPaths.close()
    },
  }
}

/** bubblewrap opens what it mounts as the sandbox's own uid, which must be able to walk there. */
const requireReachable = async ({ workspaceDirectory, mounts, uid, gid }: SandboxSpec, dataDirectory: string): Promise<void> => {
  for (const path of [workspaceDirectory, ...mounts.map(({ source }) => source)]) {
    const closed = path.startsWith(`${dataDirectory}/`) ? undefined : await closedOnTheWay(path, { uid, gid })
    if (closed !== undefined)
      throw new BoxofficeError(
        'INVALID_REQUEST',
        `host_path ${path} cannot be reached by uid ${uid}, as which the sandbox runs: ${closed} is closed to it; make it searchable (chmod o+x)`,
      )
  }
}

/** Where there are no groups: the path of the link is on the command line of the monitor, or of the supervisor itself. */
const endByName = async (id: string): Promise<void> => {
  if (!SANDBOX_ID_PATTERN.test(id)) return
  const link = `/sandboxes/${id}/link`
  for (const pid of (await Promise.all((await pidsWithArgumentEnd(link, `${link}/link.sock`)).map(descendantsOf))).flat())
    signalPid(pid, 'SIGKILL')
}

/** Without namespaces there is no private `/tmp` for it; beside the link it goes with the sandbox. */
const homeOf = ({ linkDirectory }: SandboxSpec): string => join(dirname(linkDirectory), 'home')

const makeHome = async (spec: SandboxSpec): Promise<void> => {
  await mkdir(homeOf(spec), { mode: 0o700 })
  if (process.getuid?.() === 0) await chown(homeOf(spec), spec.uid, spec.gid)
}
