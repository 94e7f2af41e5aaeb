import type { Session } from '../../../domain/session.ts'
import type { E2bSandbox } from '../../../store/e2b-store.ts'

/** The version of E2B's in-sandbox API that this facade speaks. */
export const ENVD_VERSION = '0.6.4'
const CLIENT_ID = 'boxoffice'
const NO_DISK_LIMIT_MB = 0

/** What a client needs to use a sandbox: the response of create and connect. */
export const toConnected = ({ id, template }: E2bSandbox, token: string) => ({
  sandboxID: id,
  templateID: template,
  clientID: CLIENT_ID,
  envdVersion: ENVD_VERSION,
  envdAccessToken: token,
  domain: null,
  trafficAccessToken: null,
})

/** A sandbox in a listing, or by itself. */
export const toDetail = ({ id, template, metadata, startedAt, endAt, paused, autoPause }: E2bSandbox, { profile }: Session) => ({
  sandboxID: id,
  templateID: template,
  clientID: CLIENT_ID,
  envdVersion: ENVD_VERSION,
  domain: null,
  state: stateOf(paused),
  startedAt: new Date(startedAt).toISOString(),
  endAt: new Date(endAt).toISOString(),
  cpuCount: profile.cpus,
  memoryMB: profile.memory_mb,
  diskSizeMB: profile.workspace_quota_mb || NO_DISK_LIMIT_MB,
  metadata,
  lifecycle: { onTimeout: autoPause ? 'pause' : 'kill', autoResume: false },
})

export const stateOf = (paused: boolean): 'paused' | 'running' => (paused ? 'paused' : 'running')
