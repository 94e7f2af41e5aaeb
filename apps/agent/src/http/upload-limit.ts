import { BoxofficeError } from '@boxoffice/protocol'
import { overQuota } from '../disk/held.ts'
import { statFile } from '../sandbox/files.ts'
import type { SandboxPath } from '../sandbox/paths.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Call } from './call.ts'
import { tooLarge } from './too-large.ts'

/** How much of a body is taken, and what is said to more. */
export type UploadLimit = { bytes: number; refused: () => BoxofficeError }

/** What workspaces may still take. */
export interface UploadQuotas {
  /** In bytes; undefined where there is no quota. */
  roomIn(sandbox: Sandbox): Promise<number | undefined>
  /** So much is about to be uploaded, or has been. */
  expect(sandbox: Sandbox, bytes: number): void
}

/** Absolute paths of the sandbox's own file system that are in the workspace. */
const IN_WORKSPACE = /^\/(?:workspace|app)(?:\/|$)/

/** By the profile, or by what the workspace has room for. Throws 507 where the announced length is more than that. */
export const uploadLimit = async (call: Call, path: SandboxPath, announced = 0): Promise<UploadLimit> => {
  const { sandbox, quotas } = call
  const most = sandbox.profile.max_upload_bytes
  const byProfile: UploadLimit = { bytes: most, refused: () => tooLarge(most) }
  if (path.root !== 'workspace' && !IN_WORKSPACE.test(path.path)) return byProfile
  let room = await quotas?.roomIn(sandbox)
  if (room === undefined) return byProfile
  const refused = (): BoxofficeError => overQuota(path.given)
  if (announced > room) room += await sizeOf(call, path)
  if (announced > room) throw refused()
  quotas?.expect(sandbox, announced)
  return room < most ? { bytes: room, refused } : byProfile
}

/** Of the file that the upload takes the place of. */
const sizeOf = async ({ sandbox, signal }: Call, path: SandboxPath): Promise<number> => {
  try {
    const { type, size } = await statFile(sandbox, path, { follow: true, signal })
    return type === 'file' ? size : 0
  } catch (error) {
    if (error instanceof BoxofficeError && error.code === 'FILE_NOT_FOUND') return 0
    throw error
  }
}
