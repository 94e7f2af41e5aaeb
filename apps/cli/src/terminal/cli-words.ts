/** What brokers and agents say in words of their API, as this command line says it. */
const REWORDED: readonly (readonly [pattern: RegExp, words: string])[] = [
  [/^thread_id: /, '--thread: '],
  [/^(state|profile|principal): /, '--$1: '],
  [/call with mode "ensure" to (?:create|use) (?:one|it)/, '`boxoffice exec` makes one'],
  [/call with mode "ensure" to get a new one/, '`boxoffice exec` makes a new one'],
  [/send Authorization: Bearer <API key>/, '--api-key or BOXOFFICE_API_KEY names another'],
  [/(cannot be reached \([^)]*\))/, '$1; `boxoffice up` starts a Boxoffice on this machine, --broker or BOXOFFICE_URL names another'],
]

/** The message of a server's refusal without its routes and fields: with the commands that the reader can type. */
export const inCliWords = (message: string): string => REWORDED.reduce((text, [pattern, words]) => text.replace(pattern, words), message)
