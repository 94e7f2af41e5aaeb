import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { BoxofficeError } from '@boxoffice/protocol'
import {
  childrenBelow,
  descendantsOf,
  nameProcess,
  type ProcessName,
  pidsWithArgument,
  pidsWithVariable,
  processState,
  signalPid,
  signalProcess,
} from '../../host/process-table.ts'
import type { Inside, SandboxHandle } from '../../sandbox/provider.ts'
import type { CgroupGroup } from './cgroups.ts'
import { LOG_NAME, openLog, type Spawned, spawnDetached } from './spawn.ts'
import type { LocalState, StateFiles } from './state-file.ts'

/** Marks every process of a sandbox without namespaces, so that its end finds them all. */
const MARK = 'BOXOFFICE_SANDBOX_ID'

export interface LocalSandbox {
  /** For the first time; with what starts it, if a process waits for that in the sandbox's group. */
  start(launch?: () => Spawned): Promise<SandboxHandle>
  handle(): Promise<SandboxHandle>
  freeze(): Promise<void>
  stop(): Promise<void>
  resume(): Promise<void>
  inside(): Promise<Inside | undefined>
  destroy(): Promise<void>
}

type Started = { pid: number; supervisorPid: number }

type Parts = {
  state: LocalState
  isolation: 'bubblewrap' | 'none'
  group: CgroupGroup | undefined
  files: StateFiles
  bootId: string
  /** Of the sandbox, below the agent's data directory. */
  directory: string
}

/** One sandbox of the local provider: its processes by name, its control group, its state file. */
export const localSandbox = ({ state: initial, isolation, group, files, bootId, directory }: Parts): LocalSandbox => {
  let state = initial
  const save = (change: Partial<LocalState>): Promise<void> => {
    state = { ...state, ...change }
    return files.save(state)
  }
  const ofThisBoot = (): boolean => state.boot_id === bootId
  const processes = (): ProcessName[] => (ofThisBoot() ? [state.monitor, state.supervisor].filter((name) => name !== null) : [])

  const start = async (first: boolean, launch?: () => Spawned): Promise<SandboxHandle> => {
    // The file is there before the process is, so that a crash in between leaves something to find it by. One that wakes counts as stopped
    // until its process is known: a look at it meanwhile, and a wake that fails, must not lose it.
    state = { ...state, boot_id: bootId, stopped: !first, monitor: null, supervisor: null }
    if (first) await files.usePrewarmed(state.id, directory)
    await (first ? files.create(state) : files.save(state))
    const { pid, supervisorPid } = launch === undefined ? await startHere() : await startBy(launch).catch(startAgain)
    const [monitor, supervisor] = await Promise.all([nameProcess(pid), nameProcess(supervisorPid)])
    state = { ...state, stopped: false, monitor: monitor ?? null, supervisor: supervisor ?? null }
    await (first ? files.create(state) : files.save(state))
    return { id: state.id, engineId: String(pid), state: 'running', profileHash: state.profile_hash }
  }

  /** Already in the group, and so is what it starts. */
  const startBy = async (launch: () => Spawned): Promise<Started> => {
    const { pid, supervisorPid } = launch()
    return { pid, supervisorPid: await supervisorPid.catch(endedEarly) }
  }

  /** What failed ahead of time may have failed for that; here it says why, if it fails once more. */
  const startAgain = async (): Promise<Started> => {
    await kill()
    return startHere()
  }

  const startHere = async (): Promise<Started> => {
    const environment: Record<string, string> =
      isolation === 'none' ? { PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin', [MARK]: state.id } : {}
    await using log = await openLog(directory)
    const spawned = await spawnDetached(state.command, { environment, infoPipe: isolation === 'bubblewrap', log })
    // No program of the sandbox runs before the agent talks to its supervisor, so joining the group late leaves no gap.
    const joined = group?.attach(spawned.pid)
    joined?.catch(() => {})
    const supervisorPid = await spawned.supervisorPid.catch(endedEarly)
    const limited = joined?.then(() => group?.attach(supervisorPid)).catch(endedEarly)
    await limited
    return { pid: spawned.pid, supervisorPid }
  }

  const endedEarly = async (cause: unknown): Promise<never> => {
    const said = (await readFile(join(directory, LOG_NAME), 'utf8').catch(() => '')).trim().slice(-500)
    throw new BoxofficeError('BACKEND_UNAVAILABLE', `the sandbox ended at its start: ${said === '' ? 'it said nothing' : said}`, { cause })
  }

  const engineState = async (): Promise<SandboxHandle['state']> => {
    if (state.stopped) return 'stopped'
    if (!ofThisBoot() || state.supervisor === null) return 'lost'
    const now = await processState(state.supervisor)
    if (now === 'gone') return 'lost'
    return now === 'stopped' || (await group?.frozen()) ? 'frozen' : 'running'
  }

  /** Every process that may belong to the sandbox, found by whatever still names it. */
  const remaining = async (): Promise<number[]> => {
    const named = await Promise.all(processes().map(async (name) => ((await processState(name)) === 'gone' ? [] : [name.pid])))
    const unnamed = state.monitor === null ? await unnamedProcesses() : []
    const marked = isolation === 'none' ? await pidsWithVariable(MARK, state.id) : []
    return [...new Set([...named.flat(), ...unnamed, ...marked, ...((await group?.pids()) ?? [])])]
  }

  /** A crash right after the spawn left no names: the path of the link on the command line is the sandbox's alone. */
  const unnamedProcesses = async (): Promise<number[]> => {
    const { arguments: args } = state.command
    const own = isolation === 'none' ? args[args.indexOf('--socket') + 1] : args[args.indexOf('/.boxoffice/link') - 1]
    return own === undefined ? [] : (await Promise.all((await pidsWithArgument(own)).map(descendantsOf))).flat()
  }

  const kill = async (): Promise<void> => {
    for (let attempt = 0; ; attempt++) {
      const pids = await remaining()
      if (pids.length === 0) return
      for (const pid of pids) signalPid(pid, 'SIGKILL')
      // A frozen process dies only when it is thawed.
      await group?.thaw().catch(() => {})
      if (attempt > 500) throw new BoxofficeError('INTERNAL', `processes of sandbox ${state.id} survive SIGKILL: ${pids.join(', ')}`)
      await delay(Math.min(20, 1 + attempt))
    }
  }

  const signalTree = async (signal: NodeJS.Signals): Promise<void> => {
    if (state.supervisor === null) return
    for (const pid of await descendantsOf(state.supervisor.pid)) signalPid(pid, signal)
    await signalProcess(state.supervisor, signal)
  }

  return {
    start: (launch) => start(true, launch),
    async handle() {
      const now = await engineState()
      const lost = now === 'lost' && ((await group?.oomKills()) ?? 0) > 0
      return {
        id: state.id,
        engineId: String(state.monitor?.pid ?? 0),
        state: now,
        profileHash: state.profile_hash,
        ...(lost ? { oomKilled: true } : {}),
      }
    },
    freeze: async () => (group === undefined ? signalTree('SIGSTOP') : group.freeze()),
    async stop() {
      await save({ stopped: true })
      await kill()
    },
    async resume() {
      if (state.stopped) {
        // An agent that was killed in a wake left processes that no name leads to.
        await kill()
        await start(false)
      } else if (group === undefined) await signalTree('SIGCONT')
      else await group.thaw()
    },
    async inside() {
      const { monitor, supervisor } = state
      if (state.stopped || supervisor === null || (await processState(supervisor)) === 'gone') return undefined
      const pids = group === undefined ? childrenBelow(supervisor.pid) : await group.pids()
      return { supervisor: supervisor.pid, others: pids.filter((pid) => pid !== supervisor.pid && pid !== monitor?.pid) }
    },
    async destroy() {
      await kill()
      await group?.remove()
      await files.remove(state.id)
    },
  }
}
