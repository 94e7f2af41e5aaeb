import { fileURLToPath } from 'node:url'

/** Where the set-up puts the supervisor's binary, and where a build of one's own does. */
export const SHIPPED_SUPERVISORS: readonly string[] = ['../../supervisor/bin/supervisor', '../../supervisor/target/release/supervisor'].map(
  (path) => fileURLToPath(new URL(path, import.meta.url)),
)
