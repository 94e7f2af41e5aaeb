import type { Connection } from './address.ts'

/** What Hono knows of a request beside it: its connection. */
export type Env = { Bindings: Connection }
