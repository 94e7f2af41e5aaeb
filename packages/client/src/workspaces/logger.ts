/** Takes events by their names, as the console and most logging libraries do. */
export type WorkspaceLogger = {
  info(fields: Record<string, unknown>, name: string): void
  warn(fields: Record<string, unknown>, name: string): void
}

/** Something that was done [1-60, 1-61]. What failed has no event. */
export const tell = (logger: WorkspaceLogger | undefined, event: string, fields: Record<string, unknown>): void =>
  logger?.info({ event, ...fields }, event)

/** Something that must not be done, and was not [1-62]. */
export const tellRefused = (logger: WorkspaceLogger | undefined, fields: Record<string, unknown>): void =>
  logger?.warn({ event: 'session.security.refused', ...fields }, 'session.security.refused')
