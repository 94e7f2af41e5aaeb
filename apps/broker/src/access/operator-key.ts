import { isLoopback } from '@boxoffice/kit/is-loopback'
import type { ResolvedBrokerConfig } from '../config/config.ts'
import { readSecret, writeSecret } from '../host/data-dir.ts'
import { StartError } from '../host/start-error.ts'
import type { Store } from '../store/store.ts'
import { hashKey, newApiKey, newKeyId, ROOT_TENANT } from './principals.ts'

/**
 * Makes sure that somebody can use the broker. With `createApiKey` the key of the first start is kept in the data directory
 * (`api-key`, mode 0600; the database has its hash only), so that later starts can show the same one.
 */
export async function operatorKey(settings: ResolvedBrokerConfig, store: Store, now: number): Promise<string | undefined> {
  const loopback = isLoopback(settings.host)
  if (settings.apiKey !== undefined) return undefined
  if (!settings.createApiKey || !loopback) {
    if (!loopback && (await store.keys.countValid()) === 0)
      throw new StartError(`a listener on ${settings.host} needs an API key: set --api-key (generate one with: openssl rand -base64 33)`)
    return undefined
  }
  const kept = readSecret(settings.dataDir, 'api-key')
  if (kept !== undefined && (await store.keys.byHash(hashKey(kept)))?.revokedAt === null) return kept
  const key = newApiKey()
  const record = { id: newKeyId(), hash: hashKey(key), name: 'boxoffice up', tenant: ROOT_TENANT, principal: 'operator', createdAt: now }
  writeSecret(settings.dataDir, 'api-key', key)
  await store.keys.insert(
    { ...record, actorType: 'human', role: 'operator', rights: ['act_as', 'release', 'box'], capabilities: null, revokedAt: null },
    [],
  )
  return key
}
