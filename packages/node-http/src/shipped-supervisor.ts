import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** What npm has installed beside this for the platform that it is on. */
const installed = (): string[] => {
  try {
    return [createRequire(import.meta.url).resolve(`@boxoffice/supervisor-${process.platform}-${process.arch}/bin/supervisor`)]
  } catch {
    return []
  }
}

/** Where the set-up puts the supervisor's binary, where a build of one's own does, and where npm does. */
export const SHIPPED_SUPERVISORS: readonly string[] = [
  ...['../../supervisor/bin/supervisor', '../../supervisor/target/release/supervisor'].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  ),
  ...installed(),
]
