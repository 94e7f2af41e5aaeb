import type { BoxofficeError } from '@boxoffice/protocol'
import type { SandboxPath } from '../files/paths.ts'
import { overQuota } from '../sandbox/held.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { tooLarge } from './too-large.ts'

/** How much of a body is taken, and what is said to more. */
export type UploadLimit = { bytes: number; refused: () => BoxofficeError }

/** An upload: its bytes count for the workspace until it is over, which disposes it, and has been counted there. */
export type UploadLease = { bytes: number } & Disposable

/** What workspaces may still take. */
export interface UploadQuotas {
  /** In bytes, of which `wanted` are asked for; undefined where there is no quota. */
  roomIn(sandbox: Sandbox, wanted: number): Promise<number | undefined>
  /** So many bytes are about to be uploaded. */
  begin(sandbox: Sandbox, bytes: number): UploadLease | undefined
}

/** Absolute paths of the sandbox's own file system that are in the workspace. */
const IN_WORKSPACE = /^\/(?:workspace|app)(?:\/|$)/

/**
 * By the profile, or by what the workspace has room for: a file that is replaced is there until the end. Throws 507 where the announced
 * length is more than that.
 */
export const uploadLimit = async (
  { sandbox, quotas }: { sandbox: Sandbox; quotas: UploadQuotas | undefined },
  path: SandboxPath,
  announced = 0,
): Promise<UploadLimit & { lease: UploadLease | undefined }> => {
  const most = sandbox.profile.max_upload_bytes
  const byProfile = { bytes: most, refused: () => tooLarge(most), lease: undefined }
  if (quotas === undefined || (path.root !== 'workspace' && !IN_WORKSPACE.test(path.path))) return byProfile
  const room = await quotas.roomIn(sandbox, announced)
  if (room === undefined) return byProfile
  const refused = (): BoxofficeError => overQuota(path.given)
  if (announced > room) throw refused()
  const lease = quotas.begin(sandbox, announced)
  return room < most ? { bytes: room, refused, lease } : { ...byProfile, lease }
}
