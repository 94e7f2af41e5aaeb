import { type OutputChunk, rolldown } from 'rolldown'

/** Bundles a module as a browser project does. What a browser does not have, as a module of Node, is an error. */
export async function bundleForBrowser(input: string): Promise<OutputChunk> {
  const build = await rolldown({
    input,
    platform: 'browser',
    onLog: (level, log) => {
      if (level === 'warn') throw new Error(log.message)
    },
  })
  const { output } = await build.generate({ format: 'esm', codeSplitting: false })
  await build.close()
  return output[0]
}
