import { createHash, timingSafeEqual } from 'node:crypto'
import type { Socket } from 'node:net'
import { z } from 'zod'
import { readShared } from '../fast-io/shared-reads.ts'
import type { UnprovenConnections } from './unproven-connections.ts'
import { FRAME, FrameDecoder, type FrameSink, WIRE_VERSION, WireViolation } from './wire.ts'

export const Hello = z.object({
  version: z.literal(WIRE_VERSION),
  kind: z.enum(['control', 'channel', 'egress']),
  channel: z.number().int().min(0).max(0xffff_ffff),
  pid: z.number().int(),
  secret: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
  /** Of the control connection: `spare` is understood. */
  spares: z.boolean().optional(),
  /** Of the control connection: the file operation `watch` is understood. */
  watches: z.boolean().optional(),
  /** Of the control connection: `dial` and the call `ports` are understood. */
  dials: z.boolean().optional(),
  /** Of the control connection: the call `egress` is understood. */
  egress: z.boolean().optional(),
})
export type Hello = z.infer<typeof Hello>

const HELLO_WITHIN_MS = 1000
/** A hello has less than 200. */
const MAX_BYTES_BEFORE_HELLO = 4096

export const hashSecret = (secret: string): string => createHash('sha256').update(secret).digest('hex')

export const sameHash = (left: string, right: string): boolean => {
  const [a, b] = [Buffer.from(left, 'hex'), Buffer.from(right, 'hex')]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** What a connection does once its hello has been accepted. */
export interface ConnectionRole extends FrameSink {
  closed(): void
}

/**
 * One accepted socket of the link: reads `hello`, then gives every frame to the role that `admit` chose. Whatever comes from
 * the sandbox is untrusted: a violation or a throwing handler ends this socket and nothing else. Returns the socket that is read.
 */
export const serveConnection = (
  accepted: Socket,
  options: { admit: (hello: Hello, socket: Socket) => ConnectionRole; unproven: UnprovenConnections },
): Socket => {
  const { admit, unproven } = options
  let role: ConnectionRole | undefined
  let bytesBeforeHello = 0
  // Where the agent itself was busy for that long, the hello may be there unread: it is read before the immediate runs.
  const late = setTimeout(() => setImmediate(() => role === undefined && connection.refuse('no hello in time')), HELLO_WITHIN_MS)
  late.unref()

  const connection = {
    refuse: (why: string): void => {
      if (socket.destroyed) return
      settle()
      unproven.logRefusal(why)
      socket.destroy()
    },
  }
  const settle = (): void => {
    clearTimeout(late)
    unproven.delete(connection)
  }

  const decoder = new FrameDecoder({
    data: (type, piece) => {
      if (role === undefined) throw new WireViolation('data before hello')
      role.data(type, piece)
    },
    frame: (type, payload) => {
      if (role !== undefined) return role.frame(type, payload)
      const hello = Hello.safeParse(payload)
      if (type !== FRAME.hello || !hello.success) throw new WireViolation('first frame is not a valid hello')
      role = admit(hello.data, socket)
      settle()
    },
  })

  const socket = readShared(accepted, (chunk) => {
    if (socket.destroyed) return
    try {
      if (role === undefined) bytesBeforeHello += chunk.length
      decoder.push(chunk)
      if (role === undefined && bytesBeforeHello > MAX_BYTES_BEFORE_HELLO) throw new WireViolation('too many bytes before hello')
    } catch (error) {
      connection.refuse(error instanceof Error ? error.message : 'unknown')
    }
  })
  socket.on('error', () => socket.destroy())
  socket.on('close', () => {
    settle()
    role?.closed()
  })
  unproven.add(connection)
  return socket
}
