import { EnvironmentVariables, ProcessId } from '@boxoffice/protocol'
import { z } from 'zod'

/** Whole numbers of seconds and the like; null: what the sandbox's profile has. */
const limit = (schema: z.ZodNumber) => schema.nullable().default(null)

/** How an administrator's MCP server wants its sandbox [2-82]. Fields that are not known are left out. */
export const MCPServerBoxConfig = z.object({
  image: z.string().min(1).nullable().default(null),
  /** Null: on where the provider can grant it, so that what it depends on can be installed; else off, with a warning. */
  network: z.enum(['on', 'off']).nullable().default(null),
  /** The directory with the server's files; null: found from its command and arguments [2-84]. */
  host_path: z.string().startsWith('/', 'must be an absolute path').nullable().default(null),
  host_path_mode: z.enum(['none', 'ro', 'rw']).default('ro'),
  env: EnvironmentVariables.default({}),
  startup_timeout_sec: z.number().positive().max(3600).default(120),
  cpus: limit(z.number().positive()),
  memory_mb: limit(z.number().int().min(32)),
  pids_limit: limit(z.number().int().min(1)),
  /** Null: it can be written, for what is installed into it. */
  read_only_rootfs: z.boolean().nullable().default(null),
})
export type MCPServerBoxConfig = z.infer<typeof MCPServerBoxConfig>

/** One stdio server, as it stands in the settings (`mcp_servers`) or comes with `POST /v1/mcp/servers`. */
export const McpServerConfig = z.object({
  /** Of its process and of its directory in the sandbox too. */
  name: ProcessId,
  mode: z.literal('stdio', 'must be "stdio": servers that speak HTTP need no sandbox').default('stdio'),
  command: z.string().min(1, 'must not be empty').max(4096),
  args: z.array(z.string().max(128 * 1024)).default([]),
  env: EnvironmentVariables.default({}),
  /** The servers of one pipeline share a sandbox [0-42]. */
  pipeline_uuid: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,128}$/, 'must be 1 to 128 characters of A-Z, a-z, 0-9, _, . and -')
    .default('default'),
  box: MCPServerBoxConfig.prefault({}),
})
export type McpServerConfig = z.infer<typeof McpServerConfig>

/** `mcp` of the settings. */
export const McpSettings = z.strictObject({
  /** Run servers without isolation where nothing isolates [2-81]. Default: only when nobody but this machine reaches the broker. */
  hostFallback: z.boolean().optional(),
})
