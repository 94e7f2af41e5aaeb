/** Something in flags, environment or configuration is wrong. The message names it and the fix. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
