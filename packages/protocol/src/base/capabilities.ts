import { z } from 'zod'

/** One right each on the dataplane [4-75]. `shell` does not imply `exec` in the API [C-56]. */
export const CAPABILITIES = ['fs_read', 'fs_write', 'shell', 'exec', 'ports'] as const
/** Granted only to who asks for it by name, within policy: agents of before refuse a token that carries it. */
export const ONLY_BY_NAME: ReadonlySet<string> = new Set<(typeof CAPABILITIES)[number]>(['ports'])
export const Capability = z.enum(CAPABILITIES)
export type Capability = z.infer<typeof Capability>

/** Of a list that a newer release may have written, the capabilities that this one knows: the others open nothing here. */
export const KnownCapabilities = z.preprocess(
  (names) => (Array.isArray(names) ? names.filter((name) => typeof name !== 'string' || Capability.safeParse(name).success) : names),
  z.array(Capability),
)

/** Other names that clients ask by [C-56]. */
export const CAPABILITY_ALIASES: Readonly<Record<string, Capability>> = {
  execute: 'exec',
  upload: 'fs_write',
  download: 'fs_read',
}
