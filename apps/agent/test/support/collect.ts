import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')

/** Collects all garbage of this process, so that what a test measures is what something holds, and not when the engine last collected. */
export const collect = runInNewContext('gc') as () => void
