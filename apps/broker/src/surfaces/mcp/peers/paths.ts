/** Below it brokers ask each other. */
export const PEERS_PATH = '/internal/v1/mcp/servers'

/** Below that: one server. */
export const serverPath = (name: string): string => `/${encodeURIComponent(name)}`
/** Its endpoint. */
export const endpointPath = (name: string): string => `${serverPath(name)}/mcp`
