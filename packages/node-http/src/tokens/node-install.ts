import { createHash } from 'node:crypto'

/** No data directory makes one that begins so. */
const PREFIX = 'k8s-node.'
/** What a label of Kubernetes may have: pods carry the install id in one. */
const MAX_LENGTH = 63

/** The install id of the agent of a Kubernetes node. It follows from the node's name, so a new data directory there is the same install. */
export const nodeInstallId = (node: string): string => {
  const id = `${PREFIX}${node}`
  if (id.length <= MAX_LENGTH) return id
  const digest = createHash('sha256').update(node).digest('hex').slice(0, 16)
  return `${id.slice(0, MAX_LENGTH - digest.length - 1)}-${digest}`
}

export const isNodeInstallId = (installId: string): boolean => installId.startsWith(PREFIX)
