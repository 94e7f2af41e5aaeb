import { type ExecInfo, isCode, type Stdin } from '@boxoffice/client'
import { KeyedQueue } from '@boxoffice/kit/keyed-queue'
import { withTimeout } from '@boxoffice/kit/with-timeout'
import { BoxofficeError, EnvironmentVariables, ExecId, LIMITS, SIGNALS } from '@boxoffice/protocol'
import { z } from 'zod'
import { READS, RUNS, toTool, WRITES } from '../base/tool.ts'
import { BOUNDS, withNotice } from './bounds.ts'
import { wholeCharacters } from './whole-characters.ts'

const Id = ExecId.describe('As process_start or process_list gave it')

const Process = z.object({
  process_id: z.string(),
  state: z.enum(['running', 'exited']),
  command: z.string(),
  started_at: z.string(),
  ended_at: z.string().nullable(),
  exit_code: z.number().nullable(),
  reason: z.string().nullable(),
})

const toProcess = ({ execId, state, command, startedAt, endedAt, exitCode, reason }: ExecInfo): z.infer<typeof Process> => ({
  ...{ process_id: execId, state, command, exit_code: exitCode, reason },
  ...{ started_at: startedAt.toISOString(), ended_at: endedAt?.toISOString() ?? null },
})

const lineOf = ({ process_id, state, exit_code, command }: z.infer<typeof Process>): string =>
  `${process_id}: ${state}${exit_code === null ? '' : ` with ${exit_code}`}: ${command}`

export const processStart = toTool({
  name: 'process_start',
  title: 'Start a process',
  description:
    'Starts a line of shell that runs on while other tools are used, such as a server, and gives its process_id. Its input stays open',
  inputSchema: z.strictObject({
    command: z.string().min(1).max(LIMITS.commandBytes),
    workdir: z.string().min(1).max(4096).optional().describe('Where to run it: below /workspace, which is the default'),
    env: EnvironmentVariables.optional(),
    timeout_sec: z.number().positive().optional().describe('When it is ended. Default: as late as the sandbox allows'),
  }),
  outputSchema: z.object({ process_id: z.string() }),
  annotations: RUNS,
  async run({ command, workdir, env, timeout_sec }, { session, signal }) {
    const { exec } = await session()
    // A call that is cancelled ends the process, whose id nobody would have.
    const run = await exec.start(command, { cwd: workdir, env, timeoutSeconds: timeout_sec, detach: true, stdin: 'open', signal })
    run.exit.catch(() => {})
    const { execId } = run.detach()
    return { text: [`Process ${execId} is started.`], structuredContent: { process_id: execId } }
  },
})

export const processList = toTool({
  name: 'process_list',
  title: 'List processes',
  description: 'Lists commands that run in the sandbox, whoever started them, and those that ended less than 10 minutes ago',
  inputSchema: z.strictObject({ state: z.enum(['running', 'exited', 'all']).default('all') }),
  outputSchema: z.object({ processes: z.array(Process), truncated: z.boolean() }),
  annotations: READS,
  async run({ state }, { session, signal }) {
    const { exec } = await session()
    const all = await exec.list({ state, signal })
    const truncated = all.length > BOUNDS.entries
    const processes = all.slice(-BOUNDS.entries).map(toProcess)
    return { text: withNotice(processes.map(lineOf), truncated), structuredContent: { processes, truncated } }
  },
})

export const processStatus = toTool({
  name: 'process_status',
  title: 'Look at a process',
  description: 'Says whether a process runs, and how it ended',
  inputSchema: z.strictObject({ process_id: Id }),
  outputSchema: Process,
  annotations: READS,
  async run({ process_id }, { session, signal }) {
    const { exec } = await session()
    const found = (await exec.list({ signal })).find(({ execId }) => execId === process_id)
    if (found === undefined)
      throw new BoxofficeError('EXEC_NOT_FOUND', `there is no process ${process_id}; process_list has those that there are`)
    const process = toProcess(found)
    return { text: [lineOf(process)], structuredContent: process }
  },
})

export const processOutput = toTool({
  name: 'process_output',
  title: 'Read the output of a process',
  description: `Gives what a process has written, from a byte on; at most ${BOUNDS.textCharacters} bytes at once. Waits for more where asked to`,
  inputSchema: z.strictObject({
    process_id: Id,
    stream: z.enum(['stdout', 'stderr']).default('stdout'),
    offset: z.number().int().min(0).default(0).describe('next_offset of the call before'),
    wait_sec: z.number().int().min(0).max(BOUNDS.waitSeconds).default(0).describe('How long to wait for output'),
  }),
  outputSchema: z.object({ output: z.string(), offset: z.number(), next_offset: z.number(), ended: z.boolean() }),
  annotations: READS,
  async run({ process_id, stream, offset: asked, wait_sec }, { session, signal }) {
    const { exec } = await session()
    const options = { stream, offset: asked, limit: BOUNDS.textCharacters, waitSeconds: wait_sec, signal }
    const { bytes, offset, ended } = await exec.output(process_id, options)
    const whole = ended ? bytes : wholeCharacters(bytes)
    const output = new TextDecoder().decode(whole)
    const next_offset = offset + whole.length
    const lost = offset > asked ? [`[bytes ${asked} to ${offset} are no longer kept]`] : []
    const more = ended ? '[the output has ended]' : `[read on with offset ${next_offset}]`
    return { text: [...lost, output, more], structuredContent: { output, offset, next_offset, ended } }
  },
})

export const processWrite = toTool({
  name: 'process_write',
  title: 'Write to a process',
  description: 'Writes to the standard input of a process that process_start has started, or ends that input',
  inputSchema: z.strictObject({
    process_id: Id,
    input: z.string().max(BOUNDS.inputCharacters).default(''),
    end: z.boolean().default(false).describe('Ends the input after that'),
  }),
  outputSchema: z.object({ process_id: z.string(), written: z.number(), ended: z.boolean() }),
  annotations: { ...RUNS, openWorldHint: false },
  async run({ process_id, input, end }, { session, signal }) {
    const { id, exec } = await session()
    const write = async (): Promise<Written> => {
      signal.throwIfAborted()
      // Without the signal, which would end the process: a call that is cancelled only leaves it.
      const run = await exec.attach(process_id, { mode: 'mirror', stdoutOffset: 'end', stderrOffset: 'end' })
      run.exit.catch(() => {})
      const leave = (): void => void run.detach()
      signal.addEventListener('abort', leave, { once: true })
      try {
        signal.throwIfAborted()
        if (input !== '') await run.stdin.write(input)
        return await flushed(run.stdin, process_id, end)
      } finally {
        signal.removeEventListener('abort', leave)
        leave()
      }
    }
    // The sandbox takes input of one connection at a time.
    const outcome = await writes.run(`${id}/${process_id}`, write)
    const written = new TextEncoder().encode(input).length
    const more = outcome === 'exited' ? ', which has ended' : end ? ', and its input is ended' : ''
    return {
      text: [`${written} bytes are written to ${process_id}${more}.`],
      structuredContent: { process_id, written, ended: end || outcome === 'exited' },
    }
  },
})

/** Calls of `process_write`, by session and process. */
const writes = new KeyedQueue()

/** How a write ended: the sandbox has it all, or the process ended first. */
type Written = 'taken' | 'exited'

/**
 * Waits until the sandbox has what was written, and the `end` is sent, so that leaving loses nothing. Throws RATE_LIMITED for a process
 * that reads too little.
 */
const flushed = async (stdin: Stdin, processId: string, end: boolean): Promise<Written> => {
  const late = (): never => {
    throw new BoxofficeError(
      'RATE_LIMITED',
      `${processId} reads too little of its input: it may get a part of this, and no more is written`,
    )
  }
  try {
    await withTimeout(stdin.flush(), BOUNDS.waitSeconds * 1000, late)
    if (end) await stdin.end()
    return 'taken'
  } catch (error) {
    if (isCode(error, 'STDIN_CLOSED')) return 'exited'
    throw error
  }
}

export const processSignal = toTool({
  name: 'process_signal',
  title: 'Signal or end a process',
  description: 'Sends a signal to a process and its group. TERM is followed by KILL a second later, so that it ends',
  inputSchema: z.strictObject({ process_id: Id, signal: z.enum(SIGNALS).default('TERM') }),
  outputSchema: z.object({ process_id: z.string(), delivered: z.boolean() }),
  annotations: WRITES,
  async run({ process_id, signal: name }, { session, signal }) {
    const { exec } = await session()
    const delivered = name === 'TERM' ? await exec.kill(process_id, { signal }) : await exec.signal(process_id, name, { signal })
    return {
      text: [delivered ? `${process_id} got ${name}.` : `${process_id} had ended before.`],
      structuredContent: { process_id, delivered },
    }
  },
})
