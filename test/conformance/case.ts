import type { Target } from './target.ts'

/** One thing that any broker with its dataplane must do, by the numbers of the contract that it proves. */
export type Case = { numbers: readonly string[]; name: string; run: (target: Target) => Promise<void> }

/** `numbers` as the contract writes them, separated by commas: `'4-13, C-17'`. */
export const check = (numbers: string, name: string, run: Case['run']): Case => ({ numbers: numbers.split(/,\s*/), name, run })
