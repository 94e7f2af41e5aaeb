import { z } from 'zod'
import { StartError } from '../host/start-error.ts'

/** Holds a password: no error may quote it. */
export const DatabaseUrl = z
  .string()
  .refine(
    (url) => URL.canParse(url) && /^postgres(ql)?:$/.test(new URL(url).protocol),
    'must look like postgres://USER:PASSWORD@HOST:PORT/DATABASE',
  )

type Shared = {
  databaseUrl?: string | undefined
  secretKeyFile?: string | undefined
  enrollToken?: string | undefined
  kubernetesAgents?: object | undefined
  publicUrl?: string | undefined
}

/** What brokers of one database cannot make for themselves: it must be the same for all of them. */
const REQUIRED = {
  secretKeyFile: '(--secret-key-file), a file that all brokers have the same of; make one with: boxoffice keys make-secret-key FILE',
  enrollToken: '(--enroll-token), the same for all brokers; generate one with: openssl rand -base64 33',
  publicUrl: '(--public-url), the one URL at which clients and agents reach the brokers; it is the issuer of their tokens',
} as const

/** Throws `StartError` naming what a broker on PostgreSQL lacks. */
export function requireShared(config: Shared): void {
  if (config.databaseUrl === undefined) return
  for (const [name, what] of Object.entries(REQUIRED)) {
    // Where agents come by their cluster's word, no token must be the same everywhere.
    if (name === 'enrollToken' && config.kubernetesAgents !== undefined) continue
    if (config[name as keyof typeof REQUIRED] === undefined)
      throw new StartError(`with a database URL the broker needs the setting ${name} ${what}`)
  }
}

/** Whether other brokers may have the same sessions. */
export const isShared = ({ databaseUrl, sharedDataDir }: { databaseUrl?: string | undefined; sharedDataDir: boolean }): boolean =>
  sharedDataDir || databaseUrl !== undefined
