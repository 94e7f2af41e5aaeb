import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { RpcResponse } from './rpc.ts'

/** Speaks the RPC with the program that started this one, a line each [2-45]. Resolves when it has closed its end and all is answered. */
export async function serveBoxStdio(input: Readable, output: Writable, answer: (line: string) => Promise<RpcResponse>): Promise<void> {
  const pending = new Set<Promise<void>>()
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line.trim() === '') continue
    const answered = answer(line).then((response) => void output.write(`${JSON.stringify(response)}\n`))
    pending.add(answered)
    void answered.finally(() => pending.delete(answered))
  }
  await Promise.all(pending)
}
