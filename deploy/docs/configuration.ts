// `npm run docs` writes docs/configuration.md from the schemas of broker and agent and the flags of the command line.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { z } from 'zod'
import { AgentConfig } from '../../apps/agent/src/config/config.ts'
import { Pipeline } from '../../apps/broker/src/config/box.ts'
import { BrokerConfig } from '../../apps/broker/src/config/config.ts'
import { MCPServerBoxConfig, McpServerConfig } from '../../apps/broker/src/config/mcp-server.ts'
import { lsCommand } from '../../apps/cli/src/commands/ls.ts'
import { createSbsProgram } from '../../apps/cli/src/sbs/program.ts'
import { environmentName, kebabCase } from '../../apps/cli/src/settings/config-file.ts'
import { defaultOf } from '../../apps/cli/src/settings/default-text.ts'
import { AGENT_FLAGS, BROKER_FLAGS, COMMON_FLAGS, nameOf, UP_FLAGS } from '../../apps/cli/src/settings/flags.ts'
import { BUILT_IN_PROFILES, Profile } from '../../packages/protocol/src/sessions/profiles.ts'

const PAGE = join(import.meta.dirname, '../../docs/configuration.md')

/** Given by the commands themselves, or by two flags. */
const NOT_SET_HERE: ReadonlySet<string> = new Set(['dataDir', 'createApiKey', 'tls'])

type Row = readonly string[]

const table = (heads: Row, rows: readonly Row[]): string =>
  [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`).join('\n')

const code = (text: string): string => `\`${text}\``

const keyOf = (name: string): string => (name.includes('-') ? name : kebabCase(name).replaceAll('-', '_'))

/** What a description says, and the default that it ends with. */
const parted = (description: string): { what: string; standard: string | undefined } => {
  const [, what = description, standard] = /^(.*?); default:? (.*)$/.exec(description) ?? []
  return { what, standard }
}

const defOf = (schema: z.ZodType) => (schema as unknown as { def: { type: string; innerType?: z.ZodType; element?: z.ZodType } }).def

const snakeKeys = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [keyOf(name), inner]))
    : value

const standardOf = (schema: z.ZodType): string => {
  const { standard } = parted(schema.description ?? '')
  if (standard !== undefined) return standard
  const { type } = defOf(schema)
  const defaultValue = defaultOf(schema)
  if (type === 'prefault') return 'see below'
  if (type !== 'default') return schema.safeParse(undefined).success ? 'none' : 'required'
  if (Array.isArray(defaultValue)) return defaultValue.length === 0 ? 'none' : code(defaultValue.join(','))
  return code(typeof defaultValue === 'string' ? defaultValue : JSON.stringify(defaultValue, snakeKeys))
}

/** A schema without the wrappers that its default, its absence or a list of it make. */
const objectOf = (schema: z.ZodType): z.ZodObject => {
  const { type, innerType, element } = defOf(schema)
  if (type === 'object') return schema as z.ZodObject
  const inner = innerType ?? element
  if (inner === undefined) throw new Error(`no object in a schema of type ${type}`)
  return objectOf(inner)
}

const described = (name: string, schema: z.ZodType): string => {
  if (schema.description === undefined) throw new Error(`setting ${name} has no description in its schema`)
  return parted(schema.description).what
}

/** Settings of a part: with the flag, where there is one, and the names that `up` has for it, where they differ. */
const settings = (
  config: z.ZodObject,
  flags: readonly { flags: string; setting: string }[],
  upNames: Readonly<Record<string, string>> = {},
) =>
  table(
    ['flag', 'environment variable', 'key', 'default', 'what'],
    Object.entries(config.shape)
      .filter(([name]) => !NOT_SET_HERE.has(name))
      .map(([name, schema]) => {
        const { flags: written } = flags.find(({ setting }) => setting === name) ?? {}
        const other = upNames[name]
        const both = (of: (setting: string) => string): string =>
          other === undefined ? code(of(name)) : `${code(of(name))}, under \`up\` ${code(of(other))}`
        const flag = written === undefined ? '–' : other === undefined ? code(written) : both((setting) => `--${kebabCase(setting)}`)
        return [flag, both(environmentName), both(keyOf), standardOf(schema as z.ZodType), described(name, schema as z.ZodType)]
      }),
  )

const fields = (schema: z.ZodType): string =>
  table(
    ['key', 'default', 'what'],
    Object.entries(objectOf(schema).shape).map(([name, field]) => [
      code(keyOf(name)),
      standardOf(field as z.ZodType),
      described(name, field as z.ZodType),
    ]),
  )

type Options = ReturnType<typeof lsCommand>['options']

const optionsOf = (options: Options): string =>
  table(
    ['flag', 'what'],
    options.map(({ flags, description, defaultValue }) => [
      code(flags),
      defaultValue === undefined || defaultValue === false ? description : `${description}; default ${code(String(defaultValue))}`,
    ]),
  )

const builtInProfiles = (): string => {
  const standard = Profile.parse({ name: 'default' })
  return table(
    ['profile', 'differs from the defaults'],
    BUILT_IN_PROFILES.map((profile) => {
      const own = Object.entries(profile).filter(
        ([name, value]) => name !== 'name' && JSON.stringify(value) !== JSON.stringify(standard[name as keyof Profile]),
      )
      return [code(profile.name), own.map(([name, value]) => code(`${name}: ${JSON.stringify(value)}`)).join(', ') || 'in nothing']
    }),
  )
}

const upNames = Object.fromEntries(
  UP_FLAGS.flatMap(({ flags, setting }) => (nameOf(flags) === setting ? [] : [[setting, nameOf(flags)] as const])),
)

const { shape: broker } = BrokerConfig
const { shape: agent } = AgentConfig

/** Of the options of `ls` those that the other client commands have, too. `--thread` has the environment of whoever asks as its default. */
const clientOptions = (): string =>
  optionsOf(
    lsCommand()
      .options.filter(({ long }) => ['--thread', '--broker', '--api-key', '--config'].includes(long ?? ''))
      .map((option) => Object.assign(option, option.long === '--thread' ? { defaultValue: 'default' } : {})),
  )

/** The text of docs/configuration.md. */
export const configurationPage = (): string => `# Configuration

<!-- Written by \`npm run docs\` from the schemas and flags of the code. Change those, not this page. -->

A setting comes from the first of these that has it: its flag, its environment variable, its key in the JSON file that \`--config\` names, its default.
Every setting has a variable and a key; some have no flag. \`boxoffice COMMAND --help\` prints the flags of a command with the texts of this page.

- The file is one JSON object. Keys may be written in \`snake_case\`, \`kebab-case\` or \`camelCase\`; keys of objects in a list stand as they are
  below. An unknown setting is an error.
- One file can hold the settings of broker, agent and client commands together.
- A variable or flag whose setting is an object or a list takes JSON. Lists of words can be separated by commas.
- A switch is on by its flag alone. An empty variable counts as not set. A variable of a switch takes \`true\`, \`yes\`, \`on\` or \`1\` and \`false\`, \`no\`, \`off\` or \`0\`.
- Times are in seconds unless the name says otherwise.

## \`up\`, \`broker\` and \`agent\`

${table(
  ['flag', 'environment variable', 'key', 'default', 'what'],
  COMMON_FLAGS.map(({ flags, description }) => {
    const { what, standard = 'none' } = parted(description)
    const name = nameOf(flags)
    return [code(flags), code(environmentName(name)), name === 'config' ? '–' : code(keyOf(name)), standard, what]
  }),
)}

\`--json\` prints one line of JSON when the program is ready. \`up\` has two flags more: with \`--until-stdin-ends\` it ends when its standard input
does, and with \`--box-stdio\` it speaks the RPC of the Box surface on standard input and output.

## Broker

Settings of \`boxoffice up\` and \`boxoffice broker\`. \`up\` uses certificate, web origins, proxies, \`max_connections\`
and log level for its agent, too.

${settings(BrokerConfig.extend({ tlsCert: agent.tlsCert, tlsKey: agent.tlsKey }), BROKER_FLAGS)}

### \`rate_limits\`

Each is \`{"per_second": NUMBER, "burst": NUMBER}\`.

${fields(broker.rateLimits)}

### \`kubernetes_agents\`

[Agents of a Kubernetes cluster](agents.md#agents-of-a-kubernetes-cluster) says what this is for.

${fields(broker.kubernetesAgents)}

### \`oidc_claims\`

${fields(broker.oidcClaims)}

### \`profiles\`

A profile names image, limits, network and times of a sandbox; a session asks for one by its name. Fields that the file leaves out have these defaults:

${fields(Profile)}

These profiles are built in:

${builtInProfiles()}

### \`images\`

How patterns are matched is in [security](security.md#images-that-clients-may-name).

${fields(broker.images)}

### \`box\`

${fields(broker.box)}

A pipeline:

${fields(Pipeline)}

### \`mcp\`

${fields(broker.mcp)}

### \`mcp_servers\`

A list; each server is an object:

${fields(McpServerConfig)}

\`box\` of a server:

${fields(MCPServerBoxConfig)}

## Agent

Settings of \`boxoffice agent\` and, except \`broker_url\` and \`enroll_token\`, of the agent in \`boxoffice up\`. There the default of
\`agent_host\` is the broker's \`host\`.

${settings(AgentConfig, AGENT_FLAGS, upNames)}

\`boxoffice agent\` takes \`--log-level\` (\`BOXOFFICE_LOG_LEVEL\`, \`log_level\`) as the broker does.

### \`kubernetes\`

${fields(agent.kubernetes)}

### \`reserve\`

[Many sandboxes](many-sandboxes.md) says what is counted.

${fields(agent.reserve)}

### \`dataplane_rates\`

Each is \`{"per_second": NUMBER, "burst": NUMBER}\`.

${fields(agent.dataplaneRates)}

### \`fast_io\`

Of broker and agent; \`up\` uses it for both. Each trick has a [plain way](fast-io.md) with the same outcome.

${fields(agent.fastIo)}

## Client commands

Commands that talk to a broker take these, as far as \`boxoffice COMMAND --help\` lists them. \`broker\` and \`api_key\` are their keys in the file.

${clientOptions()}

## \`sbs run\`

${optionsOf(createSbsProgram('sbs').commands[0]?.options ?? [])}

\`SBS_STEP_TIMEOUT_SEC\` is the time that a step may take: 30 s by default, from 1 s to a day.
`

if (import.meta.main) {
  writeFileSync(PAGE, configurationPage())
  process.stdout.write('docs/configuration.md\n')
}
