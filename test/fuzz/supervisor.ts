import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** The targets in packages/supervisor/tests/fuzz.rs, and which test each is. */
export const SUPERVISOR_TARGETS: Readonly<Record<string, string>> = {
  'supervisor-wire': 'the_decoder_takes_any_bytes',
  'supervisor-files': 'file_calls_of_any_shape_are_answered',
}

const FOLDER = new URL('../../packages/supervisor/', import.meta.url).pathname

/** Runs one of cargo's tests for so long. */
export async function runSupervisor(
  test: string,
  { seconds, seed }: { seconds: number; seed: number },
): Promise<{ executions: number; failure: string | undefined }> {
  const child = spawn('cargo', ['test', '--quiet', '--test', 'fuzz', test, '--', '--exact', '--nocapture'], {
    cwd: FOLDER,
    env: { ...process.env, FUZZ_SECONDS: String(Math.ceil(seconds)), FUZZ_SEED: String(seed) },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (part: Buffer) => {
    output += part.toString()
  })
  const [code] = (await once(child, 'close')) as [number | null]
  const executions = Number(/^executions: (\d+)$/m.exec(output)?.[1] ?? 0)
  return { executions, failure: code === 0 && executions > 0 ? undefined : `cargo test ended with ${code}, seed ${seed}` }
}
