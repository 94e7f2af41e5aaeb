import type { Sealed } from '../host/sealing.ts'

/** Who wants a server, where other brokers reach it (sealed), and for how long it has the server then. */
export type McpLease = { owner: string; ownerUrl: string; leaseMs: number }

/** What an owner tells of a server for the other brokers; null leaves what is there. */
export type McpReport = { name: string; info: string | null; sessionId: string | null }

/** An MCP server that brokers share. Times are the database's. */
export type McpServerRow = Sealed & {
  name: string
  /** It stands in the brokers' settings, which alone take it away. */
  isConfigured: boolean
  /** Whoever has it ends its process, and removes the row. */
  isEnding: boolean
  /** The broker that has it or had it last, and where that one is reached, sealed. */
  owner: string | null
  ownerUrl: string | null
  /** Whether the owner's lease has not run out. */
  isHeld: boolean
  /** What an owner told last, JSON; null before. */
  info: string | null
  /** The session that it ran in last. */
  sessionId: string | null
}

/**
 * The MCP servers that brokers share through a database. Each is run by the one broker that holds its lease. `sealed` is the definition,
 * which has secrets.
 */
export interface McpServerStore {
  list(): Promise<McpServerRow[]>
  find(name: string): Promise<McpServerRow | undefined>
  /** Adds one, held by whoever adds it (by nobody: null), unless its name is taken or there are `most`. */
  add(server: { name: string } & Sealed, lease: McpLease | null, most: number): Promise<'added' | 'exists' | 'full'>
  /** Adds one of the settings, or replaces the definition of the one of that name; who holds it goes on. */
  configure(server: { name: string } & Sealed): Promise<void>
  /** Takes over those of `names` that nobody holds; gives which. Of several brokers one gets each. */
  claim(names: readonly string[], lease: McpLease): Promise<string[]>
  /** Prolongs the leases of those that are the owner's still, and keeps what it tells of them; gives which. */
  renew(owner: string, leaseMs: number, reports: readonly McpReport[]): Promise<string[]>
  /** Marks those as ending. */
  end(names: readonly string[]): Promise<void>
  /** Removes one that is ending, while it is the owner's. */
  remove(name: string, owner: string): Promise<void>
  /** Lets go of everything of the owner's. */
  release(owner: string): Promise<void>
  /** Replaces the definition while it is still `before`; false when it has changed or is gone. */
  reseal(name: string, before: string, after: Sealed): Promise<boolean>
}
