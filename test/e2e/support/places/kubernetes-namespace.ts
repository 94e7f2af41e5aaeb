// Set-up of vitest's project on Kubernetes: a namespace for all agents of a run.
import { useKubernetes } from './kubernetes.ts'

export default async (): Promise<() => Promise<void>> => {
  const kubernetes = await useKubernetes()
  return async () => kubernetes[Symbol.asyncDispose]()
}
