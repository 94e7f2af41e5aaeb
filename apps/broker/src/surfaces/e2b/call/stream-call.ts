import type { Opened } from './access-tokens.ts'
import type { EventStream } from './event-stream.ts'

/** A call whose response is a stream. `timeoutMs`: how long the client waits for it at most; no longer than a timer can. */
export type StreamCall = { opened: Opened; timeoutMs: number | undefined; stream(handlers: StreamHandlers): EventStream }
export type StreamHandlers = { full(): void; drained(): void; left(): void }
