const DATABASES = ['sqlite', 'postgres'] as const
const PROVIDERS = ['docker', 'local', 'kubernetes'] as const

export type DatabaseName = (typeof DATABASES)[number]
export type ProviderName = (typeof PROVIDERS)[number]

/** What brokers keep their state in, and what makes the sandboxes. */
export type Place = { database: DatabaseName; provider: ProviderName }

/** Reads the name of a place, as `postgres-docker`. */
export const placeOf = (name: string): Place => {
  const [database, provider] = name.split('-')
  const place = { database: DATABASES.find((known) => known === database), provider: PROVIDERS.find((known) => known === provider) }
  if (place.database === undefined || place.provider === undefined)
    throw new Error(`BOXOFFICE_TEST_PLACE: "${name}" is no place; {${DATABASES}}-{${PROVIDERS}} are`)
  return place as Place
}

/** That of the vitest project. Those that name none have SQLite and local sandboxes. */
export const PLACE = placeOf(process.env.BOXOFFICE_TEST_PLACE ?? 'sqlite-local')
