import { McpServerConfig } from '../../../config/mcp-server.ts'
import { type Rekeyed, reseal } from '../../../host/reseal.ts'
import { type SealContext, type Sealed, seal, unseal } from '../../../host/sealing.ts'
import type { SecretKeys } from '../../../host/secret-keys.ts'
import type { McpServerRow, McpServerStore } from '../../../store/mcp-server-store.ts'

const contextOf = (name: string): SealContext => ['mcp_servers', name]

/** The definition of a server as the database keeps it: its environment is often secret. */
export const sealDefinition = (secrets: SecretKeys, config: McpServerConfig): { name: string } & Sealed => ({
  name: config.name,
  ...seal(secrets, Buffer.from(JSON.stringify(config)), contextOf(config.name)),
})

/** Throws for a row that has been changed, or is sealed under a key that is not in the secret key file. */
export function openDefinition(secrets: SecretKeys, row: Sealed & { name: string }): McpServerConfig {
  const config = McpServerConfig.parse(JSON.parse(unseal(secrets, row, contextOf(row.name)).toString()))
  if (config.name !== row.name) throw new Error('it is the definition of another server')
  return config
}

const urlContext = (owner: string): SealContext => ['mcp_servers.owner_url', owner]

/** Where a broker is reached, so that nobody who only writes the database leads requests elsewhere. */
export function sealOwnerUrl(secrets: SecretKeys, owner: string, url: string): string {
  const { sealed, kekId } = seal(secrets, Buffer.from(url), urlContext(owner))
  return `${kekId}.${sealed}`
}

/** Undefined where nobody has the server, or the URL does not open. */
export function openOwnerUrl(secrets: SecretKeys, { owner, ownerUrl }: Pick<McpServerRow, 'owner' | 'ownerUrl'>): string | undefined {
  if (owner === null || ownerUrl === null) return undefined
  const [kekId = '', sealed = ''] = ownerUrl.split('.')
  try {
    return unseal(secrets, { sealed, kekId }, urlContext(owner)).toString()
  } catch {
    return undefined
  }
}

/** Seals every definition under the first key of the secret key file. Repeatable, beside running brokers. */
export const resealDefinitions = async (store: Pick<McpServerStore, 'list' | 'reseal'>, secrets: SecretKeys): Promise<Rekeyed> =>
  await reseal(await store.list(), secrets, {
    nameOf: ({ name }) => name,
    open: (row) => openDefinition(secrets, row),
    replace: (row, config) => store.reseal(row.name, row.sealed, sealDefinition(secrets, config)),
  })
