import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AwakeLinks } from '../../src/supervisor/awake-links.ts'
import type { SupervisorLink } from '../../src/supervisor/link.ts'
import { createSupervisorLink } from '../../src/supervisor/supervisor-link.ts'
import { encodeFrame, FRAME, FrameDecoder } from '../../src/supervisor/wire.ts'
import { quiet, SUPERVISOR } from './sandbox.ts'

/** The agent's sockets of one link: the one that listens, and those that were accepted. */
export const socketsOf = (directory: string): number =>
  readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .filter((line) => line.endsWith(` ${join(directory, 'link.sock')}`)).length

/** Speaks the wire as a supervisor does, and answers each `start` with an exit. */
export class FakeSupervisor {
  readonly welcomes: Record<string, unknown>[] = []
  readonly asked: unknown[] = []
  /** Connections on which a `dial` came, in their order. */
  readonly dialled: Socket[] = []
  readonly control: Socket
  readonly #path: string
  readonly #hello: object
  readonly #channels: Socket[] = []

  constructor(directory: string, hello: object = {}) {
    this.#path = join(directory, 'link.sock')
    this.#hello = hello
    this.control = this.#dial({ kind: 'control', channel: 0, ...hello })
  }

  channel(number: number): void {
    this.#channels.push(this.#dial({ kind: 'channel', channel: number, secret: this.welcomes[0]?.secret }))
  }

  end(): void {
    for (const socket of [this.control, ...this.#channels]) socket.destroy()
  }

  #dial(hello: object): Socket {
    const socket = connect(this.#path)
    socket.on('error', () => {})
    socket.write(encodeFrame(FRAME.hello, { version: 1, pid: 1, ...hello }))
    const decoder = new FrameDecoder({
      data: () => {},
      frame: (type, payload) => {
        if (type === FRAME.welcome) this.welcomes.push(payload)
        if (type === FRAME.spare) this.asked.push(payload)
        if (type === FRAME.dial) this.dialled.push(socket)
        if (type === FRAME.start) socket.write(encodeFrame(FRAME.exit, exitOf(String(payload.id))))
      },
    })
    socket.on('data', (chunk) => decoder.push(chunk))
    return socket
  }
}

const exitOf = (id: string): object => ({
  ...{ id, code: 0, signal: null, reason: 'exited', cause: null, spawn_error: null },
  ...{ duration_ms: 1, stdout_bytes: 0, stderr_bytes: 0, oom: false },
})

/** A link on which no supervisor has dialled yet. */
export const withLink = async (
  { idleMs }: { idleMs: number },
  work: (link: SupervisorLink, directory: string) => Promise<void>,
): Promise<void> => {
  const directory = await mkdtemp(join(tmpdir(), 'boxoffice-link-'))
  const options = { onSecret: () => {}, supervisorPath: SUPERVISOR, log: quiet, idleMs, awake: new AwakeLinks(20_000) }
  const link = await createSupervisorLink({ socketPath: join(directory, 'link.sock'), ...options })
  try {
    await work(link, directory)
  } finally {
    await link.close()
    await rm(directory, { recursive: true })
  }
}
