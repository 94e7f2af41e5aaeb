import { accessSync, constants } from 'node:fs'
import { delimiter, join, relative, resolve } from 'node:path'
import { DEFAULT_BROKER_URL } from '../settings/connection.ts'
import { printJson } from './output.ts'

/** What a service says when it is ready; `broker` and `agent` alone leave out what they do not have. */
export type ReadyLine = {
  broker_url?: string
  agent_url?: string
  api_key?: string
  /** Null when no provider is available; `reason` says why. */
  provider?: string | null
  isolation?: string | null
  reason?: string
  box_port?: number
  box_rpc_port?: number
}

/** Ports of the Box surface's own, where there are any. */
export const boxPorts = ({ boxPort, boxRpcPort }: { boxPort: number | undefined; boxRpcPort: number | undefined }): ReadyLine => ({
  ...(boxPort === undefined ? {} : { box_port: boxPort }),
  ...(boxRpcPort === undefined ? {} : { box_rpc_port: boxRpcPort }),
})

/** Exactly one line on stdout. */
export const announceJson = (ready: ReadyLine): void => printJson({ event: 'ready', ...ready, pid: process.pid })

export type UpDetails = { dataDir: string; isDefaultDataDir: boolean }

/** What a person needs: where it is, how safe it is, a key, and what to type next. */
export const announceUp = (ready: ReadyLine, { dataDir, isDefaultDataDir }: UpDetails): void => {
  const program = programName()
  const settings = [
    ...(ready.broker_url === DEFAULT_BROKER_URL ? [] : [`BOXOFFICE_URL=${ready.broker_url}`]),
    ...(isDefaultDataDir || ready.api_key === undefined ? [] : [`BOXOFFICE_API_KEY=${ready.api_key}`]),
  ]
  const lines = [
    ready.reason === undefined ? 'Boxoffice is ready.' : 'Boxoffice runs, but it can make no sandbox yet.',
    '',
    ...aligned([
      ['broker', ready.broker_url],
      ['agent', ready.agent_url],
      ['provider', provider(ready)],
      ['api key', ready.api_key],
      ['files', dataDir],
    ]),
    '',
    ...(ready.reason === undefined
      ? [
          'Try, in another terminal:',
          '',
          ...(settings.length > 0 ? [`  export ${settings.join(' ')}`] : []),
          `  ${program} exec -- sh -c 'uname -a | tee system.txt'`,
          `  ${program} cp default:system.txt .`,
          `  ${program} shell`,
        ]
      : [
          `Missing: ${ready.reason}`,
          `\`${program} doctor\` says what to do. Once a provider works, sandboxes can be made without a restart.`,
        ]),
    '',
    'Ctrl-C stops it.',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** `enrollTokenFile` is where a broker keeps what its agents show. */
export const announcePart = (ready: ReadyLine, enrollTokenFile?: string): void => {
  const lines = aligned([
    ['broker', ready.broker_url],
    ['agent', ready.agent_url],
    ['provider', 'provider' in ready ? provider(ready) : undefined],
    ['api key', ready.api_key],
    ['agents', enrollTokenFile === undefined ? undefined : `--broker-url ${ready.broker_url} --enroll-token "$(cat ${enrollTokenFile})"`],
    ['missing', ready.reason],
  ])
  process.stdout.write(`${ready.reason === undefined ? 'Ready' : 'Started; no sandbox can be made yet'}.\n${lines.join('\n')}\n`)
}

const provider = ({ provider, isolation }: ReadyLine): string => {
  if (provider == null) return 'none'
  return isolation === 'none' ? `${provider}, isolation NONE: what runs here can do what you can` : `${provider}, isolation ${isolation}`
}

const aligned = (rows: readonly (readonly [string, string | undefined])[]): string[] =>
  rows.flatMap(([name, value]) => (value === undefined ? [] : [`  ${name.padEnd(10)}${value}`]))

/** How this program is called from here. */
const programName = (): string => {
  const root = resolve(import.meta.dirname, '../../../..')
  const isInstalled = root.includes('/node_modules/')
  const inPath = (process.env.PATH ?? '')
    .split(delimiter)
    // npx puts such a directory on our PATH, and not on that of another terminal.
    .some((directory) => !(isInstalled && directory.endsWith('/node_modules/.bin')) && isExecutable(join(directory, 'boxoffice')))
  if (inPath) return 'boxoffice'
  if (isInstalled) return 'npx boxoffice'
  const link = join(root, 'node_modules/.bin/boxoffice')
  const path = relative(process.cwd(), isExecutable(link) ? link : join(root, 'apps/cli/bin/boxoffice'))
  return path.startsWith('..') ? link : `./${path}`
}

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
