/** Options of a part, by name: `--clients 200` is `{ clients: '200' }`. */
export type Options = Readonly<Record<string, string>>

/** A part of `npm run test:scale`. False when something does not hold, which it has printed. */
export type Part = (options: Options) => Promise<boolean>

/** A line on standard output: what is not text as JSON. */
export const print = (what: object | string): void => {
  process.stdout.write(`${typeof what === 'string' ? what : JSON.stringify(what)}\n`)
}
