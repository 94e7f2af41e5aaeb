import { BoxofficeError } from '@boxoffice/protocol'
import type Docker from 'dockerode'
import type { Logger } from 'pino'
import type { Provider, ProviderCapabilities, ProviderStatus, SandboxHandle } from '../../sandbox/provider.ts'
import { createOptions, LABEL, type Maker, networkName } from './create-options.ts'
import { engineFailed, inTime, messageOf, NO_ANSWER, reasonOf, statusOf, unless } from './engine-error.ts'
import { imagePuller } from './images.ts'
import { containerProcesses } from './inside.ts'

export type DockerProviderOptions = Maker & {
  docker: Docker
  capabilities: ProviderCapabilities
  engineDirectory?: string | undefined
  log: Logger
}

const NOT_MODIFIED = 304
const NOT_FOUND = 404
const CONFLICT = 409
const REMOVE_TRIES = 10

/** Sandboxes as hardened containers of any engine with Docker's API, Podman included. */
export const dockerProvider = ({ docker, installId, instanceId, capabilities, engineDirectory, log }: DockerProviderOptions): Provider => {
  const pull = imagePuller(docker, log)
  const processes = containerProcesses(docker)
  const container = (handle: SandboxHandle): Docker.Container => docker.getContainer(handle.engineId)
  let network: Promise<void> | undefined

  /** Made for the first sandbox that needs it. A failed try is not remembered. */
  const networkReady = (): Promise<void> => {
    network ??= createNetwork(docker, installId).catch((error: unknown) => {
      network = undefined
      throw error
    })
    return network
  }

  // Whether the image is here is learned from the attempt, which costs a present image nothing.
  const createContainer = async (options: Docker.ContainerCreateOptions): Promise<Docker.Container> => {
    try {
      return await docker.createContainer(options)
    } catch (error) {
      if (statusOf(error) !== NOT_FOUND || !/image/i.test(messageOf(error))) throw error
      await pull(options.Image ?? '')
      return docker.createContainer(options)
    }
  }

  return {
    name: 'docker',
    capabilities,
    sandboxes: {
      async create(id, spec, signal) {
        try {
          if (spec.profile.network === 'on') await networkReady()
          const created = await createContainer(createOptions(id, spec, { installId, instanceId }))
          await startOrRemove(created, signal)
          return { id, engineId: created.id, state: 'running', profileHash: spec.profileHash }
        } catch (error) {
          throw signal.aborted ? signal.reason : engineFailed('start the sandbox', error, log)
        }
      },
      async *list() {
        const found = await docker.listContainers({ all: true, filters: { label: [`${LABEL.managed}=true`] } })
        for (const { Id, State, Labels } of found) {
          const owner = Labels[LABEL.install]
          // Another installation's are none of our business; one without an owner is nobody's.
          if (owner !== undefined && owner !== installId) continue
          yield { id: Labels[LABEL.sandbox] ?? '', engineId: Id, state: stateOf(State), profileHash: Labels[LABEL.profileHash] ?? '' }
        }
      },
      async inspect(handle) {
        try {
          const { State } = await container(handle).inspect()
          const oomKilled = State.OOMKilled && State.ExitCode === 137
          return { ...handle, state: stateOf(State.Status), ...(oomKilled ? { oomKilled } : {}) }
        } catch (error) {
          if (statusOf(error) === NOT_FOUND) return undefined
          throw engineFailed('inspect the sandbox', error, log)
        }
      },
      async suspend(handle, mode) {
        const done = mode === 'freeze' ? container(handle).pause() : unless([NOT_MODIFIED], container(handle).stop({ t: 1 }))
        await lostIfGone(done, `${mode} the sandbox`, log)
      },
      async resume(handle) {
        // Most wakes are thaws; the engine refuses to thaw what is not frozen.
        const thawed = await container(handle)
          .unpause()
          .then(
            () => true,
            (error: unknown) => {
              if (statusOf(error) === NOT_FOUND) throw sandboxGone(error)
              return false
            },
          )
        if (!thawed) await lostIfGone(unless([NOT_MODIFIED], container(handle).start()), 'wake the sandbox', log)
      },
      async destroy(handle) {
        processes.forget(handle)
        for (let attempt = 0; ; attempt++) {
          try {
            return await unless([NOT_FOUND], container(handle).remove({ force: true, v: true }))
          } catch (error) {
            // It ended by itself between the engine's look and its kill; the next try finds it ended and only removes it.
            if (attempt < REMOVE_TRIES && /is not running/i.test(messageOf(error))) continue
            // Somebody else is removing it: wait until it is gone.
            if (statusOf(error) !== CONFLICT) throw engineFailed('remove the sandbox', error, log)
            return await unless([NOT_FOUND], container(handle).wait({ condition: 'removed' }))
          }
        }
      },
    },
    host: {
      workspacePath: () => '/workspace',
      engineDirectory,
      inside: async (handle) => (engineDirectory === undefined ? undefined : processes.inside(handle)),
    },
    probe: () => probe(docker, log),
    async close() {
      // In use by a container that stays, or never made: both are fine.
      await docker
        .getNetwork(networkName(installId))
        .remove()
        .catch(() => {})
    },
  }
}

const probe = async (docker: Docker, log: Logger): Promise<ProviderStatus> => {
  try {
    await inTime(docker.ping())
    return { available: true }
  } catch (error) {
    const reason = reasonOf(error)
    if (reason !== NO_ANSWER) log.warn({ err: error }, 'the container engine did not say that it is there')
    return { available: false, reason: `the container engine cannot be used: ${reason}; start it, or choose another --provider` }
  }
}

/** A container that does not start, or that nobody waits for any more, is removed before the error leaves. */
const startOrRemove = async (created: Docker.Container, signal: AbortSignal): Promise<void> => {
  try {
    signal.throwIfAborted()
    await created.start()
    signal.throwIfAborted()
  } catch (error) {
    await unless([NOT_FOUND], created.remove({ force: true, v: true }))
    throw error
  }
}

/** The network of this installation's sandboxes; they cannot reach each other on it. */
const createNetwork = async (docker: Docker, installId: string): Promise<void> => {
  const name = networkName(installId)
  const existing = await docker.listNetworks({ filters: { name: [name] } })
  if (existing.some(({ Name }) => Name === name)) return
  await docker.createNetwork({
    Name: name,
    Driver: 'bridge',
    Options: { 'com.docker.network.bridge.enable_icc': 'false' },
    Labels: { [LABEL.managed]: 'true', [LABEL.install]: installId },
  })
}

const stateOf = (status: string): SandboxHandle['state'] => {
  switch (status) {
    case 'running':
    case 'restarting':
      return 'running'
    case 'paused':
      return 'frozen'
    case 'exited':
    case 'stopped':
      return 'stopped'
    default:
      // `created` never ran, `dead` and `removing` never will again.
      return 'lost'
  }
}

const sandboxGone = (cause: unknown): BoxofficeError => new BoxofficeError('SANDBOX_LOST', 'the sandbox is not there any more', { cause })

const lostIfGone = async (call: Promise<unknown>, doing: string, log: Logger): Promise<void> => {
  try {
    await call
  } catch (error) {
    throw statusOf(error) === NOT_FOUND ? sandboxGone(error) : engineFailed(doing, error, log)
  }
}
