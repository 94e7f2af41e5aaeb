import { z } from 'zod'
import { AuthFrame, AuthOkFrame, ErrorFrame, PingFrame, PongFrame } from './frames.ts'

/**
 * Frames of `WS W/ports/{port}?window=`: one TCP connection to a port of the sandbox's loopback. Binary messages are its bytes, both ways,
 * cut anywhere; text messages are frames. It opens only for a credential in the headers or the subprotocols, and only where somebody
 * listens; else the upgrade is refused.
 *
 * Order: `ready`, then bytes both ways. `end` of either side: no more bytes come from it, the other way goes on. After both, close 1000. A
 * connection that breaks is `error` and a close. The client may send `auth` (a renewed token) and `ping` at any time.
 */
export const PORT_LIMITS = {
  /** Lower ones are of no program that a client looks for. */
  first: 9,
  last: 65_535,
  /** Connections at once in one sandbox. */
  connections: 256,
  /** Of `window`. */
  windowBytes: { min: 64 * 1024, max: 16 * 1024 * 1024 },
} as const

export const PortNumber = z.number().int().min(PORT_LIMITS.first).max(PORT_LIMITS.last)

/** A port as it stands in a path: decimal digits without anything before or after. Undefined for every other spelling. */
export const parsePort = (text: string): number | undefined =>
  /^[1-9]\d{0,4}$/.test(text) ? PortNumber.safeParse(Number(text)).data : undefined

export const ListPortsResponse = z.object({
  /** Those on which somebody listens, on 127.0.0.1, ::1 or every address. */
  ports: z.array(z.object({ port: z.number().int() })),
})
export type ListPortsResponse = z.infer<typeof ListPortsResponse>

/** No more bytes come from this side. */
export const PortEndFrame = z.object({ type: z.literal('end') })
/** With `window` alone: this side has taken so many bytes in all. The other one is never further ahead of it than `window`. */
export const PortAckFrame = z.object({ type: z.literal('ack'), received: z.number().int().nonnegative() })
/** `host`: the address on which the program listens. */
export const PortReadyFrame = z.object({ type: z.literal('ready'), port: z.number().int(), host: z.string() })

export const PortServerFrame = z.discriminatedUnion('type', [
  PortReadyFrame,
  PortEndFrame,
  PortAckFrame,
  AuthOkFrame,
  PongFrame,
  ErrorFrame,
])
export type PortServerFrame = z.infer<typeof PortServerFrame>
export const PortClientFrame = z.discriminatedUnion('type', [PortEndFrame, PortAckFrame, AuthFrame, PingFrame])
export type PortClientFrame = z.infer<typeof PortClientFrame>
