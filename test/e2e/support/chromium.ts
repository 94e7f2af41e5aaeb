import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** What `deploy/setup` installs, or another one. */
export const findChromium = (): string => {
  const found = (process.env.PATH ?? '')
    .split(delimiter)
    .flatMap((directory) => ['chromium-headless-shell', 'chromium', 'google-chrome'].map((name) => join(directory, name)))
    .find((path) => existsSync(path))
  if (found === undefined) throw new Error('there is no chromium-headless-shell and no chromium; `npm run setup -- --tests` installs one')
  return found
}
