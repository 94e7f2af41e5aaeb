import { vi } from 'vitest'

/** Checks again until it holds, for what happens in the background and is told to nobody. The limit is a guard against hanging. */
export const eventually = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, { timeout: 60_000 })
