import type { Random } from './random.ts'

/** A program that takes bytes from somebody else, and what must hold for all of them. */
export type FuzzTarget = {
  /** The next input; well formed ones among them. */
  generate(random: Random): Buffer
  /** Throws where a property does not hold. True when the input was accepted. It depends on nothing but the input. */
  check(input: Buffer): boolean | Promise<boolean>
}
