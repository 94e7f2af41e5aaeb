import { describeIssue } from '@boxoffice/protocol'
import { StartError } from '../host/start-error.ts'
import type { BoxSettings } from './box.ts'
import { McpServerConfig } from './mcp-server.ts'

/** The servers of the settings: `mcp_servers`, and those of each Box pipeline. Throws `StartError` naming the setting. */
export function configuredServers({
  mcpServers,
  box,
  databaseUrl,
  sharedDataDir,
}: {
  mcpServers: McpServerConfig[]
  box: BoxSettings
  databaseUrl?: string | undefined
  sharedDataDir: boolean
}): McpServerConfig[] {
  const ofPipelines = box.pipelines.flatMap(({ uuid, mcp_servers }, at) =>
    mcp_servers.map((server, index) => {
      const { data, error } = McpServerConfig.safeParse({ ...server, pipeline_uuid: uuid })
      if (data !== undefined) return data
      const issue = error.issues[0]
      throw new StartError(
        `setting box.pipelines.${at}.mcp_servers.${index} is not valid: ${issue === undefined ? 'unknown' : describeIssue(issue)}`,
      )
    }),
  )
  const all = [...mcpServers, ...ofPipelines]
  const twice = all.find(({ name }, index) => all.findIndex((other) => other.name === name) !== index)
  if (twice !== undefined) throw new StartError(`setting mcp_servers: "${twice.name}" is there twice; give each server a name of its own`)
  if (sharedDataDir && databaseUrl === undefined && all.length > 0)
    throw new StartError(
      'setting mcp_servers: brokers that share a data directory (--shared-data-dir) run none; give one broker a directory of its own, or use PostgreSQL',
    )
  return all
}
