import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { Candidate } from '../../sandbox/provider.ts'
import { kubeconfigAccess, podAccess } from './access.ts'
import { kubernetesApi } from './api.ts'
import { kubernetesProvider } from './kubernetes.ts'
import { closedDirectory, type PodOptions, TERMINATION_FILE } from './pod.ts'
import { openPodGroups } from './pod-groups.ts'

export type KubernetesSettings = {
  /** Of the sandboxes; undefined: the agent's own. */
  namespace?: string | undefined
  kubeconfig?: string | undefined
  nodeName?: string | undefined
  imagePullPolicy: PodOptions['imagePullPolicy']
  serviceAccount?: string | undefined
  runtimeClasses: readonly string[]
}

export type KubernetesCandidateOptions = {
  /** Of the agent: `auto` takes Kubernetes only in a pod that has a token. */
  provider: string
  kubernetes: KubernetesSettings
  dataDirectory: string
  installId: string
  log: Logger
}

/** The cluster of the kubeconfig, else the one that the agent is a pod of. */
export const kubernetesCandidates = (options: KubernetesCandidateOptions): Candidate[] => {
  const { provider, kubernetes, dataDirectory, installId, log } = options
  const { kubeconfig, nodeName, runtimeClasses, ...settings } = kubernetes
  if (provider === 'auto' && kubeconfig === undefined && podAccess() === undefined) return []
  return [
    {
      name: 'kubernetes',
      ...(kubeconfig === undefined ? {} : { address: `kubeconfig ${kubeconfig}` }),
      open: async () => {
        const access = kubeconfig === undefined ? podAccess() : kubeconfigAccess(kubeconfig)
        if (access === undefined)
          throw new Error('this is no pod with a token of a service account; mount one, or name a kubeconfig (kubernetes.kubeconfig)')
        if (nodeName === undefined) throw new Error('kubernetes.node_name is not set; give it spec.nodeName of the agent (downward API)')
        const namespace = settings.namespace ?? access.namespace ?? 'default'
        await makeClosedDirectory(dataDirectory)
        const api = kubernetesApi(access)
        return kubernetesProvider({ ...settings, api, namespace, node: nodeName, runtimeClasses, installId, groups: openPodGroups(), log })
      },
    },
  ]
}

export const makeClosedDirectory = async (dataDirectory: string): Promise<void> => {
  const directory = closedDirectory(dataDirectory)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  await chmod(directory, 0o700)
  await writeFile(join(directory, TERMINATION_FILE), '', { mode: 0o600 })
}
