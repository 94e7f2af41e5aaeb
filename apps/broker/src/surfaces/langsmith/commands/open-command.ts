import { BoxofficeError } from '@boxoffice/protocol'
import type { SessionDataplane } from '../../../dataplane/client.ts'
import type { ProcessSocket, ProcessSocketHandlers, ProcessStart } from '../../../dataplane/process-socket.ts'
import type { Begin } from './client-frame.ts'
import { commandFields, type WithBoxEnvironment } from './command-request.ts'

export type OpenCommandOptions = { dataplane: SessionDataplane; withBoxEnvironment: WithBoxEnvironment }

/** A command as its client began it; `kind` is `shell` where it has a terminal. */
export type OpenedCommand = { process: ProcessSocket; kind: ProcessStart['kind'] }

/** A terminal takes no `command`, so the shell that a command has without one is chosen here: bash where the image has it. */
const AT_TERMINAL = 'if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi; exec /bin/sh -c "$1"'

/** Starts a command, or joins one by its id. EXEC_NOT_FOUND: there is none. */
export async function openCommand(
  begin: Begin,
  handlers: ProcessSocketHandlers,
  { dataplane, withBoxEnvironment }: OpenCommandOptions,
): Promise<OpenedCommand> {
  const open = async (start: ProcessStart): Promise<OpenedCommand> => ({
    process: await dataplane.openProcess(start, handlers),
    kind: start.kind,
  })
  if (begin.type === 'execute') return open(await startOf(begin, withBoxEnvironment))
  const { command_id: attach, stdout_offset, stderr_offset } = begin
  const frame = { attach, stdout_offset: stdout_offset ?? 0, stderr_offset: stderr_offset ?? 0 }
  try {
    return await open({ kind: 'exec', frame })
  } catch (thrown) {
    // An id does not tell whether its command has a terminal.
    if (!(thrown instanceof BoxofficeError && thrown.code === 'EXEC_NOT_FOUND')) throw thrown
    return open({ kind: 'shell', frame })
  }
}

/** The `start` of a process socket (contract 3.3). A command goes on without its client unless it is to end with it. */
async function startOf(begin: Extract<Begin, { type: 'execute' }>, withBoxEnvironment: WithBoxEnvironment): Promise<ProcessStart> {
  const { command, command_id: id, timeout_seconds, kill_on_disconnect } = begin
  const { shell, ...fields } = await commandFields(begin, withBoxEnvironment)
  const common = { ...fields, detach: kill_on_disconnect !== true }
  if (begin.pty === true) {
    const argv = shell === undefined ? ['/bin/sh', '-c', AT_TERMINAL, 'sh', command] : [shell, '-c', command]
    return { kind: 'shell', frame: { ...common, argv, ...(id == null ? {} : { shell_id: id }) } }
  }
  return {
    kind: 'exec',
    frame: {
      ...common,
      command,
      ...(shell === undefined ? {} : { shell }),
      ...(id == null ? {} : { exec_id: id }),
      ...(timeout_seconds == null ? {} : { timeout_seconds }),
      stdin: 'open',
    },
  }
}
