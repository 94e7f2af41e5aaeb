import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLoopback } from '@boxoffice/kit/is-loopback'
import { UsageError } from '../settings/usage-error.ts'
import { serve } from '../terminal/serve.ts'
import { readStepTimeout } from './step-timeout.ts'

export type RunFlags = { host: string; port: number; allowRemote: boolean }

const NO_LIMIT = { perSecond: 1_000_000, burst: 1_000_000 }
const MAX_SESSIONS = 100_000

/**
 * The whole product in a directory of its own that goes with it: broker and agent on free ports of this machine with the plainest
 * provider, and in front of them the surface of seed 003 [3-40, 3-65].
 */
export const run = async ({ host, port, allowRemote }: RunFlags): Promise<never> => {
  if (!allowRemote && !isLoopback(host))
    throw new UsageError(`--host: ${host} can be reached by others, and there is no authentication; --allow-remote if that is meant`)
  const [{ AgentConfig, createAgent }, { createBroker, stepsProfile }, { createLog }] = await Promise.all([
    import('@boxoffice/agent'),
    import('@boxoffice/broker'),
    import('../terminal/log.ts'),
  ])
  const { seconds, warning } = readStepTimeout(process.env.SBS_STEP_TIMEOUT_SEC)
  const log = createLog('info')
  if (warning !== undefined) log.warn({ value: process.env.SBS_STEP_TIMEOUT_SEC }, warning)
  // What broker and agent say of themselves is of no use to who runs steps, unless something is wrong.
  const inner = (part: string) => log.child({ part }, { level: 'error' })

  return serve(
    async (stack) => {
      const directory = await mkdtemp(join(tmpdir(), 'sbs-'))
      stack.defer(() => rm(directory, { recursive: true, force: true }))
      const enrollToken = randomBytes(32).toString('base64url')
      const broker = createBroker(
        {
          ...{ host: '127.0.0.1', port: 0, dataDir: join(directory, 'broker'), enrollToken, maxSessions: MAX_SESSIONS },
          profiles: [stepsProfile(seconds)],
          rateLimits: { createPerPrincipal: NO_LIMIT, createPerTenant: NO_LIMIT },
          stepTimeout: seconds,
        },
        { log: inner('broker'), stepsLog: log },
      )
      stack.defer(() => broker.close())
      const { localUrl: brokerUrl } = await broker.start()
      const agent = createAgent(
        AgentConfig.parse({
          ...{ host: '127.0.0.1', port: 0, dataDir: join(directory, 'agent'), brokerUrl, enrollToken },
          ...{ provider: 'local', isolation: 'none', sameUser: true, destroyOnExit: true },
        }),
        { log: inner('agent') },
      )
      stack.defer(() => agent.close())
      await agent.start()
      const listener = await broker.serveSteps({ host, port })
      stack.defer(() => listener.close())
      return { broker_url: listener.url }
    },
    ({ broker_url: url }) => process.stdout.write(announcement(url ?? '', seconds)),
  )
}

const announcement = (url: string, seconds: number): string =>
  [
    `sbs is ready: ${url}`,
    `  API documentation  ${url}/docs`,
    `  steps may take     ${seconds} s (SBS_STEP_TIMEOUT_SEC)`,
    '  isolation          NONE: steps run as your own user, in temporary directories; not in a container',
    'Ctrl-C stops it and removes everything.',
    '',
  ].join('\n')
