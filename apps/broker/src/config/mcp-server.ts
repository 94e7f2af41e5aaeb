import { EnvironmentVariables, ProcessId } from '@boxoffice/protocol'
import { z } from 'zod'

/** Whole numbers of seconds and the like; null: what the sandbox's profile has. */
const limit = (schema: z.ZodNumber) => schema.nullable().default(null)

/** How an administrator's MCP server wants its sandbox [2-82]. Fields that are not known are left out. */
export const MCPServerBoxConfig = z.object({
  image: z.string().min(1).nullable().default(null).describe('image of the sandbox; null: that of the profile'),
  network: z
    .enum(['on', 'off'])
    .nullable()
    .default(null)
    .describe(
      'on or off; null: through the proxy to every public address on ports 80 and 443, so that dependencies can be installed. Where the agent has no proxy: on where the provider can grant it, else off with a warning',
    ),
  /** [2-84] */
  host_path: z
    .string()
    .startsWith('/', 'must be an absolute path')
    .nullable()
    .default(null)
    .describe("directory with the server's files; null: found from command and args"),
  host_path_mode: z.enum(['none', 'ro', 'rw']).default('ro').describe('how that directory is mounted: none, ro or rw'),
  env: EnvironmentVariables.default({}).describe('environment variables beside those of the server, which they override'),
  startup_timeout_sec: z.number().positive().max(3600).default(120).describe('seconds that installation and start may take'),
  cpus: limit(z.number().positive()).describe('CPUs; null: those of the profile'),
  memory_mb: limit(z.number().int().min(32)).describe('memory in MiB; null: that of the profile'),
  pids_limit: limit(z.number().int().min(1)).describe('processes; null: those of the profile'),
  read_only_rootfs: z
    .boolean()
    .nullable()
    .default(null)
    .describe('whether the root file system is read-only; null: it can be written, for installation'),
})
export type MCPServerBoxConfig = z.infer<typeof MCPServerBoxConfig>

/** One stdio server, as it stands in the settings (`mcp_servers`) or comes with `POST /v1/mcp/servers`. */
export const McpServerConfig = z.object({
  name: ProcessId.describe('name of the server, of its process and of its directory in the sandbox'),
  mode: z
    .literal('stdio', 'must be "stdio": servers that speak HTTP need no sandbox')
    .default('stdio')
    .describe('transport of the server: stdio'),
  command: z.string().min(1, 'must not be empty').max(4096).describe('program that is started'),
  args: z
    .array(z.string().max(128 * 1024))
    .default([])
    .describe('its arguments'),
  env: EnvironmentVariables.default({}).describe('its environment variables'),
  /** [0-42] */
  pipeline_uuid: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,128}$/, 'must be 1 to 128 characters of A-Z, a-z, 0-9, _, . and -')
    .default('default')
    .describe('pipeline of the server: servers of one pipeline share a sandbox'),
  box: MCPServerBoxConfig.prefault({}).describe('how the sandbox is made; see below'),
})
export type McpServerConfig = z.infer<typeof McpServerConfig>

/** `mcp` of the settings. */
export const McpSettings = z.strictObject({
  /** [2-81] */
  hostFallback: z
    .boolean()
    .optional()
    .describe('runs servers without isolation where nothing isolates; default: only when nobody but this machine reaches the broker'),
})
