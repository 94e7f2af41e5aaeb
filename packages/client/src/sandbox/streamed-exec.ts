import { LIMITS, TIMES } from '@boxoffice/protocol'
import { BoxofficeError } from '../base/errors.ts'
import type { ExecResult } from '../base/exec-result.ts'
import { anySignal } from '../base/signals.ts'
import type { Dataplane } from '../dataplane/dataplane.ts'
import { Attachment } from '../stream/attachment.ts'
import type { Inbox } from '../stream/inbox.ts'
import { type Command, commandFields, type ExecOptions, newExecId } from './command.ts'
import { decoded, type OutputCallbacks } from './deliver.ts'
import { KeptOutput } from './kept-output.ts'

/**
 * `exec` with callbacks: streams the command, and puts its result together here. What a callback throws ends the command as an abort
 * does. No callback is called after the promise has settled.
 */
export const streamedExec = async (dataplane: Dataplane, command: Command, options: ExecOptions): Promise<ExecResult> => {
  const { stdin, maxOutputBytes = LIMITS.defaultOutputBytes, outputKeep = 'head_tail' } = options
  const { timeoutSeconds = TIMES.defaultExecTimeout } = options
  if (!(maxOutputBytes >= 0 && maxOutputBytes <= LIMITS.maxOutputBytes))
    throw new BoxofficeError('INVALID_REQUEST', `maxOutputBytes: must be from 0 to ${LIMITS.maxOutputBytes}`)
  const id = options.execId ?? newExecId()
  const failing = new AbortController()
  const start = {
    ...commandFields(command, { ...options, timeoutSeconds }, id),
    stdin: stdin === undefined ? 'closed' : 'open',
  }
  // A run that is joined by its id begins with what is still kept of it.
  const from = { stdout: 'oldest', stderr: 'oldest' } as const
  // Waits as long for its agent as `exec` without callbacks does.
  const target = { route: '/exec/ws', id, start, reattach: { mode: 'takeover' }, from, patient: true } as const
  const attachment = new Attachment(dataplane, target, anySignal(options.signal, failing.signal))
  const read = async (name: 'stdout' | 'stderr', callback: OutputCallbacks['onStdout']): Promise<KeptOutput> => {
    const kept = new KeptOutput(maxOutputBytes, outputKeep)
    await decoded(keeping(attachment[name], kept), async (text) => {
      options.signal?.throwIfAborted()
      failing.signal.throwIfAborted()
      await callback?.(text)
    })
    return kept
  }
  try {
    if (stdin !== undefined) giveInput(attachment, stdin)
    const { onStdout, onStderr } = options
    const [exit, stdout, stderr] = await Promise.all([attachment.exit, read('stdout', onStdout), read('stderr', onStderr)])
    const [out, err] = [stdout.finish(exit.stdoutBytes), stderr.finish(exit.stderrBytes)]
    // Nothing ran, so the message is all there is on stderr [C-33].
    const spawnMessage = exit.spawnError === null ? undefined : `${exit.spawnError.message}\n`
    if (spawnMessage !== undefined) await onStderr?.(spawnMessage)
    return {
      ...{ execId: id, stdout: out.text, stderr: spawnMessage ?? err.text, ...exit },
      ...{ stdoutTruncated: out.truncated, stderrTruncated: err.truncated, lossy: out.lossy || err.lossy, timeoutSeconds },
    }
  } catch (error) {
    failing.abort(error)
    throw error
  }
}

async function* keeping(output: Inbox, kept: KeptOutput): AsyncGenerator<Uint8Array, void, undefined> {
  let isFirst = true
  for await (const bytes of output) {
    if (isFirst) kept.startAt(output.consumed - bytes.length)
    isFirst = false
    kept.push(bytes)
    yield bytes
  }
}

/** From where the process stands: a run that was joined by its id has had the first bytes. One that ends before it has read them all is fine. */
const giveInput = ({ ready, stdin }: Attachment, input: string | Uint8Array): void => {
  const bytes = typeof input === 'string' ? new TextEncoder().encode(input) : input
  ready
    .then(async (frame) => {
      await stdin.write(bytes.subarray(frame.stdin?.offset ?? 0))
      await stdin.end()
    })
    .catch(() => {})
}
