import { expect, test } from 'vitest'
import { OutputCollector } from '../../apps/agent/src/exec/output.ts'
import { KeptOutput } from '../../packages/client/src/sandbox/kept-output.ts'

const CHARACTERS = ['a', '\n', 'ä', '€', '😀', '\ufeff']

/** The same numbers in every run, from 0 up to `below`. */
const numbers = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

test('the SDK keeps of a streamed command what the agent keeps of one that is not', () => {
  const next = numbers(1)
  const piece = (): Uint8Array => {
    const text = new TextEncoder().encode(Array.from({ length: next(60) }, () => CHARACTERS[next(CHARACTERS.length)]).join(''))
    // Cuts fall into characters as well, and some bytes are none.
    return next(4) === 0 ? text.map((byte) => (next(50) === 0 ? 255 : byte)) : text.subarray(next(3), text.length - next(3))
  }
  for (let run = 0; run < 3_000; run++) {
    const pieces = Array.from({ length: next(12) }, piece)
    const limit = next(300)
    const keep = (['head_tail', 'head', 'tail'] as const)[next(3)] ?? 'head'
    const [agent, sdk] = [new OutputCollector(limit, keep), new KeptOutput(limit, keep)]
    // Of every other stream the first bytes are no longer kept.
    const start = (run % 2) * 100
    for (const output of [agent, sdk]) output.startAt(start)
    for (const bytes of pieces) {
      agent.push(Buffer.from(bytes))
      sdk.push(bytes)
    }
    const { data, truncated, lossy } = agent.finish('utf8')
    const written = pieces.reduce((sum, { length }) => sum + length, 0)
    expect([run, keep, limit, sdk.finish(start + written)]).toEqual([run, keep, limit, { text: data, truncated, lossy }])
  }
})
