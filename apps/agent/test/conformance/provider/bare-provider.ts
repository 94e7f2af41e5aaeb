import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { BoxofficeError } from '@boxoffice/protocol'
import { nameProcess, type ProcessName, pidsWithVariable, processState, signalPid, signalProcess } from '../../../src/host/process-table.ts'
import type { Registration } from '../../../src/providers/candidates.ts'
import type { Provider, SandboxHandle, SandboxSpec } from '../../../src/sandbox/provider.ts'
import { supervisorArguments } from '../../../src/sandbox/supervisor-arguments.ts'

/** All that it knows of a sandbox, in a file each: it must find them again after a restart. */
type State = {
  id: string
  profileHash: string
  process: ProcessName | null
  start: Pick<SandboxSpec, 'supervisorPath' | 'linkDirectory' | 'workspaceDirectory' | 'uid' | 'gid' | 'profile'>
}

const MARK = 'BARE_SANDBOX'
const asRoot = process.getuid?.() === 0

/** How it is registered beside the providers that ship [2-33]. */
export const bare: Registration = ({ dataDirectory }) => [{ name: 'bare', open: () => bareProvider(dataDirectory) }]

/** Where it keeps its own; nothing is left there when no sandbox is. */
export const bareDirectory = (dataDirectory: string): string => join(dataDirectory, 'bare')

/**
 * A backend as somebody new would write it: each sandbox is a supervisor as a plain process in its directory. It isolates
 * nothing, limits nothing, mounts nothing and cannot freeze, and says all of that.
 */
const bareProvider = async (dataDirectory: string): Promise<Provider> => {
  const directory = bareDirectory(dataDirectory)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  // Sandboxes have a user of their own where the agent is root, who must be able to walk to the workspace.
  if (asRoot) await chmod(dataDirectory, 0o711)

  const fileOf = (id: string): string => join(directory, id)
  const save = (state: State): Promise<void> => writeFile(fileOf(state.id), JSON.stringify(state))
  const load = async (id: string): Promise<State | undefined> =>
    JSON.parse(await readFile(fileOf(id), 'utf8').catch(() => 'null')) ?? undefined
  const known = async ({ id }: SandboxHandle): Promise<State> => {
    const state = await load(id)
    if (state === undefined) throw new BoxofficeError('SANDBOX_LOST', `sandbox ${id} is not there any more`)
    return state
  }

  const start = async (state: State): Promise<SandboxHandle> => {
    const { supervisorPath, linkDirectory, workspaceDirectory, uid, gid, profile } = state.start
    const home = join(dirname(linkDirectory), 'home')
    await mkdir(home, { recursive: true })
    if (asRoot) await chown(home, uid, gid)
    const paths = ['--socket', join(linkDirectory, 'link.sock'), '--workspace', workspaceDirectory, '--home', home]
    const child = spawn(supervisorPath, [...paths, ...supervisorArguments(profile)], {
      ...{ cwd: workspaceDirectory, env: { PATH: process.env.PATH, [MARK]: state.id }, detached: true, stdio: 'ignore' as const },
      ...(asRoot ? { uid, gid } : {}),
    })
    await once(child, 'spawn')
    child.unref()
    const started = { ...state, process: (await nameProcess(child.pid ?? 0)) ?? null }
    await save(started)
    return handleOf(started)
  }

  const kill = async (id: string): Promise<void> => {
    const supervisor = (await load(id))?.process ?? null
    // Its children have its mark, wherever they have gone.
    while (await remains(id, supervisor)) {
      if (supervisor !== null) await signalProcess(supervisor, 'SIGKILL')
      for (const pid of await pidsWithVariable(MARK, id)) signalPid(pid, 'SIGKILL')
      await delay(2)
    }
  }

  const inspect = async ({ id }: SandboxHandle): Promise<SandboxHandle | undefined> => {
    const state = await load(id)
    return state && handleOf(state)
  }

  return {
    name: 'bare',
    capabilities: {
      isolation: 'none',
      suspend: ['stop'],
      limits: [],
      network: true,
      egress: false,
      extraMounts: false,
      ociRuntimes: [],
      images: false,
    },
    sandboxes: {
      async create(id, spec, signal) {
        signal.throwIfAborted()
        const state = { id, profileHash: spec.profileHash, process: null, start: spec }
        await save(state)
        try {
          return await start(state)
        } catch (error) {
          await rm(fileOf(id), { force: true })
          throw error
        }
      },
      async *list() {
        for (const id of await readdir(directory)) {
          const state = await load(id)
          if (state !== undefined) yield await handleOf(state)
        }
      },
      inspect,
      async suspend(handle, mode) {
        const state = await known(handle)
        if (mode === 'freeze') throw new BoxofficeError('UNSUPPORTED', 'freeze: the bare provider can only stop a sandbox')
        await kill(state.id)
        await save({ ...state, process: null })
      },
      async resume(handle) {
        const state = await known(handle)
        if (state.process === null) await start(state)
      },
      async destroy({ id }) {
        await kill(id)
        await rm(fileOf(id), { force: true })
      },
    },
    host: { workspacePath: (workspaceDirectory) => workspaceDirectory },
    probe: async () => ({ available: true }),
    close: async () => {},
  }
}

const remains = async (id: string, supervisor: ProcessName | null): Promise<boolean> =>
  (supervisor !== null && (await processState(supervisor)) !== 'gone') || (await pidsWithVariable(MARK, id)).length > 0

const handleOf = async ({ id, profileHash, process: name }: State): Promise<SandboxHandle> => {
  const alive = name !== null && (await processState(name)) !== 'gone'
  return { id, profileHash, engineId: String(name?.pid ?? 0), state: name === null ? 'stopped' : alive ? 'running' : 'lost' }
}
