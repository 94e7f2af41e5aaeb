import type { Random } from './random.ts'

/** `input` with up to three changes; one input in eight stays as it is. `words` are put in, or in the place of something. */
export function mutated(random: Random, input: Buffer, words: readonly (string | Buffer)[]): Buffer {
  if (random.once(8)) return input
  let bytes = input
  for (let left = 1 + random.below(3); left > 0; left--) bytes = changed(random, bytes, words)
  return bytes
}

function changed(random: Random, bytes: Buffer, words: readonly (string | Buffer)[]): Buffer {
  const at = random.below(bytes.length + 1)
  const replace = (length: number, by: Buffer): Buffer => Buffer.concat([bytes.subarray(0, at), by, bytes.subarray(at + length)])
  switch (random.below(7)) {
    case 0:
      return replace(1, random.bytes(1))
    case 1:
      return replace(0, random.bytes(1 + random.below(3)))
    case 2:
      return replace(random.below(12), Buffer.alloc(0))
    case 3:
      return bytes.subarray(0, at)
    case 4: {
      const from = random.below(bytes.length + 1)
      return replace(0, bytes.subarray(from, from + random.below(40)))
    }
    default:
      return replace(random.once(2) ? 0 : random.below(12), Buffer.from(random.of(words) as string))
  }
}
