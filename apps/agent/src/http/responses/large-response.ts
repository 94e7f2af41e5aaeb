import type { ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { setImmediate } from 'node:timers/promises'
import { OutputText } from '../../exec/output-text.ts'
import { ANSWER_STALL_MS, cutStalledClient } from './stalled-client.ts'

/** The outputs of a result that are too large for a string. */
export const largeOutputs = (result: unknown): OutputText[] =>
  typeof result === 'object' && result !== null ? Object.values(result).filter((value) => value instanceof OutputText) : []

/** Sends JSON whose large outputs are encoded as the client takes them: one piece at a time is in memory twice. */
export const sendLargeJson = async (
  outgoing: ServerResponse,
  { status, headers, value, outputs }: { status: number; headers: Record<string, string>; value: unknown; outputs: readonly OutputText[] },
): Promise<void> => {
  outgoing.writeHead(status, { ...headers, 'Content-Type': 'application/json' })
  cutStalledClient(outgoing, ANSWER_STALL_MS)
  try {
    await pipeline(bodyOf(JSON.stringify(value), outputs), outgoing)
  } catch (error) {
    // Its client has gone.
    if (!outgoing.destroyed) throw error
  }
}

async function* bodyOf(json: string, outputs: readonly OutputText[]): AsyncGenerator<string> {
  let rest = json
  for (const output of outputs) {
    const at = rest.indexOf(output.mark)
    yield rest.slice(0, at)
    rest = rest.slice(at + output.mark.length)
    for (const text of output.encoded()) {
      if (text !== '') yield text
      // A client that takes everything at once does not keep others waiting.
      await setImmediate()
    }
  }
  yield rest
}
