import type { ProviderName } from './place.ts'

/** Has the settings of the kubernetes provider as JSON: the namespace of the run, and the way to its API. */
export const KUBERNETES_SETTINGS = 'BOXOFFICE_TEST_KUBERNETES'

/** Environment of an agent of this provider. */
export const agentEnv = (provider: ProviderName): Record<string, string> => {
  if (provider !== 'kubernetes') return {}
  const { [KUBERNETES_SETTINGS]: settings } = process.env
  if (settings === undefined) throw new Error(`${KUBERNETES_SETTINGS} is not set; vitest's project postgres-kubernetes sets it`)
  return { BOXOFFICE_KUBERNETES: settings }
}
