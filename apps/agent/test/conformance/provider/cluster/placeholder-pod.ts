import { Profile } from '@boxoffice/protocol'
import { type PodManifest, podOf } from '../../../../src/providers/kubernetes/pod.ts'

/** The pod of a sandbox whose directories are not there: for nodes that run nothing. */
export const placeholderPod = (id: string, { node, installId }: { node: string; installId: string }): PodManifest =>
  podOf(
    id,
    {
      profile: Profile.parse({ name: 'default', image: 'boxoffice/sandbox:latest' }),
      ...{ profileHash: '0'.repeat(16), linkDirectory: `/nowhere/${id}/link`, supervisorPath: '/nowhere/bin/supervisor' },
      ...{
        workspaceDirectory: `/nowhere/${id}/workspace`,
        workspaceReadOnly: false,
        mounts: [],
        pooled: false,
        uid: 100_000,
        gid: 100_000,
      },
    },
    { node, installId, imagePullPolicy: 'Never' },
  )
