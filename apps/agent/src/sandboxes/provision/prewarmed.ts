import type { Server } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { isFast } from '@boxoffice/node-http'
import { newSandboxId } from '@boxoffice/protocol'
import type { Logger } from 'pino'
import type { Layout, Owner, SandboxDirectories } from '../../data-dir/layout.ts'
import type { Uids } from '../../data-dir/uids.ts'
import type { Provider } from '../../sandbox/provider.ts'
import { listenForSupervisor } from '../../supervisor/link-listener.ts'
import { createQuietTimer } from './quiet-timer.ts'

/** What of a sandbox needs neither a session nor a profile. */
export type Prewarmed = {
  id: string
  owner: Owner
  directories: SandboxDirectories
  /** Listens for its supervisor. */
  server: Server
}

type Begun = Pick<Prewarmed, 'id' | 'owner'> & { provider: Provider; server: Server | undefined }
type Ready = Begun & { server: Server }

export type PrewarmedSandboxesOptions = {
  provider: () => Provider
  layout: Layout
  uids: Uids
  supervisorPath: string
  log: Logger
}

/**
 * Sandboxes of which everything is there that is the same for each of them: id, user, directories with the workspace, the socket,
 * and what the provider can do ahead. A new file or directory takes ext4 half a millisecond and more, and a sandbox has six.
 * No program of theirs runs, and nothing is known of them outside; one that is never asked for leaves nothing.
 */
export interface PrewarmedSandboxes {
  /** One that is ready, its workspace included, or undefined: then everything is made when it is needed. */
  take(): Prewarmed | undefined
  /** Makes up the number again, in the background. */
  refill(): void
  close(): Promise<void>
}

const READY = 16
const FEW = 3

export const createPrewarmedSandboxes = (options: PrewarmedSandboxesOptions): PrewarmedSandboxes => {
  const { layout, uids, supervisorPath, log } = options
  const ready: Ready[] = []
  let work: Promise<void> | undefined
  let closed = false

  const prewarm = async (): Promise<Ready> => {
    const provider = options.provider()
    const id = newSandboxId()
    const owner = uids.allot()
    let server: Server | undefined
    try {
      const { root: directory, socketPath } = await layout.prewarm(id, owner)
      server = await listenForSupervisor(socketPath)
      const { link: linkDirectory } = layout.directoriesOf(id)
      await provider.prewarm?.make(id, { directory, linkDirectory, supervisorPath, ...owner })
      return { id, owner, provider, server }
    } catch (error) {
      await discard({ id, owner, provider, server })
      throw error
    }
  }

  const discard = async ({ id, owner, provider, server }: Begun): Promise<void> => {
    provider.prewarm?.discard(id)
    server?.close()
    await layout.removePrewarmed(id)
    uids.free(owner.uid)
  }

  const fill = async (): Promise<void> => {
    try {
      for (; ready.length < READY && !closed; await setImmediate()) ready.push(await prewarm())
    } catch (err) {
      // Nobody waits for it: what keeps it from being made is told to whoever asks for a sandbox.
      log.debug({ err }, 'no sandbox could be prewarmed')
    }
  }

  const quiet = createQuietTimer(() => {
    work ??= fill().finally(() => {
      work = undefined
    })
  })

  return {
    take() {
      const one = ready.shift()
      if (one === undefined) return undefined
      try {
        return { id: one.id, owner: one.owner, server: one.server, directories: layout.usePrewarmed(one.id) }
      } catch (err) {
        log.warn({ err, sandbox_id: one.id }, 'a prewarmed sandbox cannot be used')
        discard(one).catch((cause: unknown) => log.warn({ err: cause, sandbox_id: one.id }, 'a prewarmed sandbox could not be removed'))
        return undefined
      }
    },
    refill() {
      if (!isFast('prewarm')) return
      quiet.taken(ready.length < FEW)
    },
    async close() {
      closed = true
      quiet.cancel()
      await work
      await Promise.all(ready.splice(0).map(discard))
    },
  }
}
