import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SerialQueue } from '@boxoffice/kit/serial-queue'
import { Jwks } from '@boxoffice/protocol'
import { z } from 'zod'

const Trust = z.object({
  issuer: z.string(),
  jwks: Jwks,
  /** How far the broker's clock, which judges them, is ahead of this machine's. */
  clock_offset_ms: z.number().default(0),
})

/** Whose tokens the agent believes: the broker's `iss`, its public keys and its clock. */
export type Trust = z.infer<typeof Trust>

const NAME = 'broker-trust.json'

/**
 * What the last registration said. Kept over restarts, so that clients come back to their processes at once and not only when
 * the broker has answered; undefined before the first registration.
 */
export const loadTrust = async (directory: string): Promise<Trust | undefined> => {
  try {
    return Trust.parse(JSON.parse(await readFile(join(directory, NAME), 'utf8')))
  } catch {
    return undefined // never registered, or not readable: the registration brings it
  }
}

/** Writes what is to be kept, one after the other: the last one given is the last one written. */
export const trustWriter = (directory: string): ((trust: Trust) => Promise<void>) => {
  const path = join(directory, NAME)
  const writes = new SerialQueue()
  return (trust) =>
    writes.run(async () => {
      await writeFile(`${path}.new`, JSON.stringify(trust), { mode: 0o600 })
      await rename(`${path}.new`, path)
    })
}
