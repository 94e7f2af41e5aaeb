import { BoxofficeError } from '@boxoffice/protocol'
import { RETRY_AFTER_SECONDS } from '../host/disk-floor.ts'

/** Why the processes of a sandbox are stopped: the disk is low and it is among those that filled it, or its workspace is over its quota. */
export type HoldReason = 'disk_low' | 'workspace_quota'

/** What would end with more in the workspace than `workspace_quota_mb` allows; `given` is the client's path. */
export const overQuota = (given: string): BoxofficeError =>
  new BoxofficeError('QUOTA_EXCEEDED', `${JSON.stringify(given)} does not fit into workspace_quota_mb; delete something first`, {
    details: { reason: 'workspace_quota', limit: 'workspace_quota_mb' },
  })

/** A sandbox as far as a hold is concerned. */
export type Holdable = { readonly held?: HoldReason | undefined }

const WHY: Record<HoldReason, string> = {
  disk_low: 'This sandbox is on hold: it has filled the disk; delete something first',
  workspace_quota: 'This sandbox is on hold: its workspace is over workspace_quota_mb; delete something first',
}

/** Throws 507 where nothing more may be written or started in the sandbox. */
export const requireNotHeld = (sandbox: Holdable): void => {
  const error = heldError(sandbox)
  if (error !== undefined) throw error
}

/** The same as a value. */
export const heldError = ({ held }: Holdable): BoxofficeError | undefined => {
  if (held === undefined) return undefined
  return new BoxofficeError('QUOTA_EXCEEDED', WHY[held], {
    details: { reason: held, ...(held === 'disk_low' ? {} : { limit: 'workspace_quota_mb' }) },
    // A disk has room again when anybody deletes something; a workspace only when its own user does.
    ...(held === 'disk_low' ? { retryAfter: RETRY_AFTER_SECONDS } : {}),
  })
}
