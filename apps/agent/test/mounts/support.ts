import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CreateSandboxRequest, type Mount, Profile } from '@boxoffice/protocol'
import type { z } from 'zod'
import { dockerCandidates } from '../../src/providers/docker/candidates.ts'
import { createLocalProvider } from '../../src/providers/local/local.ts'
import { MOUNT_ROOT, type OpenProvider, silent } from '../host/support/host.ts'

export const openDocker: OpenProvider = async ({ installId }, instanceId) => {
  const [candidate] = dockerCandidates({ dockerHost: 'unix:///var/run/docker.sock', installId, instanceId, log: silent })
  if (candidate === undefined) throw new Error('no candidate')
  return candidate.open()
}

export const openLocal =
  (isolation: 'bubblewrap' | 'none'): OpenProvider =>
  ({ path, installId }) =>
    createLocalProvider({ dataDirectory: path, installId, isolation, log: silent })

/** The uid of the user whose directories the tests mount. */
export const USER = 1234

/** Directories of the host below the root that the tests' policy allows; they go with the test. */
export class HostDirectories {
  readonly base: string

  private constructor(base: string) {
    this.base = base
  }

  static async make(): Promise<HostDirectories> {
    await mkdir(MOUNT_ROOT, { recursive: true, mode: 0o755 })
    const base = await mkdtemp(join(MOUNT_ROOT, 't-'))
    await chmod(base, 0o755)
    return new HostDirectories(base)
  }

  /** With a file `name` that says its name. */
  async add(name: string, { owner = USER, mode = 0o755 }: { owner?: number; mode?: number } = {}): Promise<string> {
    const path = join(this.base, name)
    await mkdir(path, { recursive: true })
    await writeFile(join(path, 'name'), name)
    if (process.getuid?.() === 0) for (const each of [path, join(path, 'name')]) await chown(each, owner, owner)
    await chmod(path, mode)
    return path
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.base, { recursive: true, force: true })
  }
}

export type Wanted = {
  profile?: Partial<Profile>
  mounts?: z.input<typeof Mount>[]
  workspace_host_path?: string
  workspace_mode?: 'rw' | 'ro' | 'none'
}

export const requestFor = ({ profile = {}, ...mounts }: Wanted): CreateSandboxRequest =>
  CreateSandboxRequest.parse({ tenant_id: 'tenant', profile: Profile.parse({ name: 'test', ...profile }), ...mounts })
