import { BoxofficeError } from '@boxoffice/protocol'

/** How many bytes of each stream there are before an event. */
export type Offsets = { stdout: number; stderr: number }

/** A stream keeps far less than this for who comes again, so an offset is known by what is left of it. */
const MODULUS = 2 ** 26
const FORM = /^\d{1,16}$/

/** The `seq` of an event is what its client has with it, so that it tells where to go on and nobody keeps a list of events. */
export const sequenceOf = ({ stdout, stderr }: Offsets): number => (stdout % MODULUS) * MODULUS + (stderr % MODULUS)

/** The offsets in a `seq` that a client has given back, each less a multiple of 64 MiB. Throws INVALID_REQUEST for what is none. */
export function readSequence(text: string): Offsets {
  const sequence = FORM.test(text) ? Number(text) : Number.NaN
  if (!(sequence < MODULUS * MODULUS)) throw new BoxofficeError('INVALID_REQUEST', 'after: must be the seq of an event')
  return { stdout: Math.floor(sequence / MODULUS), stderr: sequence % MODULUS }
}

/** Where a client goes on in a stream of which `oldest` is the first byte that is kept; undefined: what it wants is kept no more. */
export function resumeAt(oldest: number, given: number): number | undefined {
  const ahead = (((given - oldest) % MODULUS) + MODULUS) % MODULUS
  return ahead < MODULUS / 2 ? oldest + ahead : undefined
}
