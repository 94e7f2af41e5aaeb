import type { PodManifest } from '../../apps/agent/src/providers/kubernetes/pod.ts'

/** Of a pod as JSON, whatever a case makes of it. */
// biome-ignore lint/suspicious/noExplicitAny: cases break it on purpose
export type Loose = any
type Change = (spec: Loose, pod: Loose) => void

/** A pod that the policy refuses, by what it says, and a pod beside it that it takes. */
export type PodCase = { name: string; refused: Change; says: RegExp; taken?: Change }

const container =
  (change: (container: Loose) => void): Change =>
  (spec) =>
    change(spec.containers[0])
const init =
  (change: (container: Loose) => void): Change =>
  (spec) =>
    change(spec.initContainers[0])
const volume =
  (source: object): Change =>
  (spec) =>
    void spec.volumes.push({ name: 'more', ...source })
const hostPath = (path: string, type: string | null = 'Directory'): Change =>
  volume({ hostPath: { path, ...(type === null ? {} : { type }) } })
const mount =
  (path: string, readOnly: boolean): Change =>
  (spec) => {
    hostPath(path)(spec, undefined)
    spec.containers[0].volumeMounts.push({ name: 'more', mountPath: '/more', readOnly })
  }
const security =
  (fields: object): Change =>
  (spec) =>
    Object.assign(spec.securityContext, fields)
const term = (spec: Loose): Loose => spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution

/** What the policy of the chart refuses of pods by the agent of `node`, whose files are below `directory`. */
export const podCases = (directory: string): PodCase[] => [
  { name: 'without affinity', refused: (spec) => void delete spec.affinity, says: /own|node of its agent/ },
  {
    name: 'for another node',
    refused: (spec) => void Object.assign(term(spec).nodeSelectorTerms[0].matchFields[0], { values: ['node2'] }),
    says: /node of its agent/,
  },
  {
    name: 'for another node as well',
    refused: (spec) =>
      void term(spec).nodeSelectorTerms.push({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['node2'] }] }),
    says: /node of its agent/,
    taken: (spec) =>
      void Object.assign(term(spec).nodeSelectorTerms[0], {
        matchExpressions: [{ key: 'kubernetes.io/os', operator: 'In', values: ['linux'] }],
      }),
  },
  {
    name: 'for every node but one',
    refused: (spec) => void Object.assign(term(spec).nodeSelectorTerms[0].matchFields[0], { operator: 'NotIn' }),
    says: /node of its agent/,
  },
  { name: 'with nodeName', refused: (spec) => void Object.assign(spec, { nodeName: 'node2' }), says: /nodeName/ },
  {
    name: 'of another install',
    refused: (_, pod) => void Object.assign(pod.metadata.labels, { 'boxoffice.dev/install': 'k8s-node.node2' }),
    says: /labels must say/,
  },
  { name: 'without its labels', refused: (_, pod) => void delete pod.metadata.labels, says: /labels? must|label/ },
  {
    name: 'with a network label of its own making',
    refused: (_, pod) => void Object.assign(pod.metadata.labels, { 'boxoffice.dev/network': 'some' }),
    says: /boxoffice.dev\/network/,
    taken: (_, pod) => void Object.assign(pod.metadata.labels, { more: 'label' }),
  },
  {
    name: 'with the network off and nothing that takes it',
    refused: (spec) => void delete spec.initContainers,
    says: /boxoffice.dev\/network/,
    taken: (spec) => {
      delete spec.initContainers
      spec.containers[0].args.push('--no-inet')
    },
  },
  {
    name: 'with the network off and the argument for another program',
    refused: (spec) => {
      delete spec.initContainers
      Object.assign(spec.containers[0], { command: ['sleep'], args: ['1', '--no-inet'] })
    },
    says: /boxoffice.dev\/network/,
  },
  {
    name: 'with a secret',
    refused: volume({ secret: { secretName: 'x' } }),
    says: /emptyDir and hostPath/,
    taken: volume({ emptyDir: {} }),
  },
  { name: 'with a configMap', refused: volume({ configMap: { name: 'x' } }), says: /emptyDir and hostPath/ },
  {
    name: 'with a projected token',
    refused: volume({ projected: { sources: [{ serviceAccountToken: { path: 'token', audience: 'boxoffice' } }] } }),
    says: /emptyDir and hostPath/,
  },
  {
    name: 'with the downward API',
    refused: volume({ downwardAPI: { items: [{ path: 'x', fieldRef: { fieldPath: 'metadata.name' } }] } }),
    says: /emptyDir and hostPath/,
  },
  { name: 'with a claim', refused: volume({ persistentVolumeClaim: { claimName: 'x' } }), says: /emptyDir and hostPath/ },
  { name: 'with a CSI volume', refused: volume({ csi: { driver: 'x' } }), says: /emptyDir and hostPath/ },
  { name: 'with NFS', refused: volume({ nfs: { server: 'x', path: '/' } }), says: /emptyDir and hostPath/ },
  { name: 'with the root of the node', refused: hostPath('/'), says: /data directory/ },
  { name: 'with /etc', refused: hostPath('/etc'), says: /data directory/ },
  { name: 'with the data directory itself', refused: hostPath(directory), says: /data directory/ },
  {
    name: 'with all workspaces',
    refused: hostPath(`${directory}/workspaces`),
    says: /data directory/,
    taken: hostPath(`${directory}/workspaces/another_one-1`),
  },
  { name: 'with a directory in a workspace', refused: hostPath(`${directory}/workspaces/w/below`), says: /data directory/ },
  {
    name: 'with the directory around a link',
    refused: hostPath(`${directory}/sandboxes/sb_1`),
    says: /data directory/,
    taken: mount(`${directory}/sandboxes/sb_2/link`, true),
  },
  { name: 'with a directory whose name begins as the data directory does', refused: hostPath(`${directory}x/bin`), says: /data directory/ },
  { name: 'with a directory below another one', refused: hostPath(`/mnt${directory}/bin`), says: /data directory/ },
  {
    name: 'with a directory that the kubelet makes',
    refused: hostPath(`${directory}/workspaces/w`, 'DirectoryOrCreate'),
    says: /type Directory/,
  },
  { name: 'with a file', refused: hostPath(`${directory}/workspaces/w`, 'File'), says: /type Directory/ },
  { name: 'with a socket', refused: hostPath(`${directory}/sandboxes/sb_1/link`, 'Socket'), says: /type Directory/ },
  { name: 'with a path of no type', refused: hostPath(`${directory}/workspaces/w`, null), says: /type Directory/ },
  {
    name: 'that writes the programs',
    refused: mount(`${directory}/bin`, false),
    says: /read-only/,
    taken: mount(`${directory}/workspaces/another`, false),
  },
  { name: 'that writes in a link', refused: mount(`${directory}/sandboxes/sb_1/link`, false), says: /read-only/ },
  {
    name: 'with mounts that propagate',
    refused: container((c) => void Object.assign(c.volumeMounts[0], { mountPropagation: 'HostToContainer' })),
    says: /propagate/,
  },
  { name: 'of the default account', refused: (spec) => void delete spec.serviceAccountName, says: /service account/ },
  {
    name: 'of the account of agents',
    refused: (spec) => void Object.assign(spec, { serviceAccountName: 'boxoffice-agent' }),
    says: /service account/,
  },
  {
    name: 'with the token of its account',
    refused: (spec) => void Object.assign(spec, { automountServiceAccountToken: true }),
    says: /automount|emptyDir/,
  },
  { name: 'that leaves the token to the account', refused: (spec) => void delete spec.automountServiceAccountToken, says: /automount/ },
  {
    name: 'with a pull secret',
    refused: (spec) => void Object.assign(spec, { imagePullSecrets: [{ name: 'another' }] }),
    says: /imagePullSecrets/,
    taken: (spec) => void Object.assign(spec, { imagePullSecrets: [{ name: 'registry' }] }),
  },
  { name: 'with envFrom', refused: container((c) => void Object.assign(c, { envFrom: [{ secretRef: { name: 'x' } }] })), says: /envFrom/ },
  {
    name: 'with a variable from a secret',
    refused: container((c) => void Object.assign(c, { env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'x', key: 'y' } } }] })),
    says: /valueFrom/,
    taken: container((c) => void Object.assign(c, { env: [{ name: 'A', value: 'b' }] })),
  },
  {
    name: 'with a variable from a configMap',
    refused: container((c) => void Object.assign(c, { env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'x', key: 'y' } } }] })),
    says: /valueFrom/,
  },
  {
    name: 'with the network of the host',
    refused: (spec) => void Object.assign(spec, { hostNetwork: true }),
    says: /namespaces of the host/,
  },
  {
    name: 'with the processes of the host',
    refused: (spec) => void Object.assign(spec, { hostPID: true }),
    says: /namespaces of the host/,
  },
  { name: 'with the IPC of the host', refused: (spec) => void Object.assign(spec, { hostIPC: true }), says: /namespaces of the host/ },
  {
    name: 'with a port of the host',
    refused: container((c) => void Object.assign(c, { ports: [{ containerPort: 80, hostPort: 80 }] })),
    says: /ports of the host/,
    taken: container((c) => void Object.assign(c, { ports: [{ containerPort: 80 }] })),
  },
  {
    name: 'as root',
    refused: security({ runAsUser: 0, runAsNonRoot: false }),
    says: /other than root/,
    taken: security({ runAsUser: 1234, runAsGroup: 1234 }),
  },
  { name: 'in the group of root', refused: security({ runAsGroup: 0 }), says: /other than root/ },
  { name: 'whose user may be root', refused: security({ runAsNonRoot: false }), says: /other than root/ },
  { name: 'with further groups', refused: security({ supplementalGroups: [0] }), says: /further groups/ },
  { name: 'with a group of its files', refused: security({ fsGroup: 1 }), says: /further groups/ },
  { name: 'with sysctls', refused: security({ sysctls: [{ name: 'kernel.shm_rmid_forced', value: '1' }] }), says: /sysctls/ },
  { name: 'with SELinux options', refused: security({ seLinuxOptions: { type: 'spc_t' } }), says: /SELinux/ },
  { name: 'with a profile of AppArmor', refused: security({ appArmorProfile: { type: 'Unconfined' } }), says: /AppArmor/ },
  { name: 'without seccomp', refused: security({ seccompProfile: { type: 'Unconfined' } }), says: /seccomp/ },
  {
    name: 'whose container is without seccomp',
    refused: container((c) => void Object.assign(c.securityContext, { seccompProfile: { type: 'Unconfined' } })),
    says: /profiles of its own/,
  },
  {
    name: 'that sees all of /proc',
    refused: container((c) => void Object.assign(c.securityContext, { procMount: 'Unmasked' })),
    says: /profiles of its own|hostUsers/,
  },
  {
    name: 'that may gain privileges',
    refused: container((c) => void Object.assign(c.securityContext, { allowPrivilegeEscalation: true })),
    says: /allowPrivilegeEscalation/,
  },
  {
    name: 'that does not say whether it may',
    refused: container((c) => void delete c.securityContext.allowPrivilegeEscalation),
    says: /allowPrivilegeEscalation/,
  },
  {
    name: 'that is privileged',
    refused: container((c) => void Object.assign(c.securityContext, { privileged: true, allowPrivilegeEscalation: true })),
    says: /allowPrivilegeEscalation|privileged/,
  },
  {
    name: 'without security settings',
    refused: container((c) => void delete c.securityContext),
    says: /allowPrivilegeEscalation|privileged|user of the pod/,
  },
  { name: 'that keeps its capabilities', refused: container((c) => void delete c.securityContext.capabilities), says: /capabilities/ },
  {
    name: 'that drops some of them',
    refused: container((c) => void Object.assign(c.securityContext.capabilities, { drop: ['NET_RAW'] })),
    says: /capabilities/,
  },
  {
    name: 'that adds NET_ADMIN',
    refused: container((c) => void Object.assign(c.securityContext.capabilities, { add: ['NET_ADMIN'] })),
    says: /added capabilities/,
  },
  {
    name: 'whose container has another user',
    refused: container((c) => void Object.assign(c.securityContext, { runAsUser: 0 })),
    says: /user of the pod/,
  },
  {
    name: 'whose container may be root',
    refused: container((c) => void Object.assign(c.securityContext, { runAsNonRoot: false })),
    says: /user of the pod/,
  },
  {
    name: 'with two containers',
    refused: (spec) => void spec.containers.push({ ...spec.containers[0], name: 'second' }),
    says: /one container/,
  },
  {
    name: 'with two init containers',
    refused: (spec) => void spec.initContainers.push({ ...spec.initContainers[0], name: 'second' }),
    says: /one init container|network/,
  },
  {
    name: 'whose init container runs a shell',
    refused: init((c) => void Object.assign(c, { command: ['/bin/sh'] })),
    says: /own supervisor/,
  },
  {
    name: 'whose init container has arguments',
    refused: init((c) => void Object.assign(c, { args: ['--workspace', '/'] })),
    says: /own supervisor/,
  },
  {
    name: 'whose init container has variables',
    refused: init((c) => void Object.assign(c, { env: [{ name: 'A', value: 'b' }] })),
    says: /own supervisor/,
  },
  { name: 'whose init container stays', refused: init((c) => void Object.assign(c, { restartPolicy: 'Always' })), says: /own supervisor/ },
  {
    name: 'whose init container runs what is in a workspace',
    refused: init((c) => void Object.assign(c.volumeMounts[0], { name: 'host-1' })),
    says: /own supervisor/,
  },
  {
    name: 'whose init container runs another program',
    refused: init((c) => void Object.assign(c.volumeMounts[0], { subPath: 'closed' })),
    says: /own supervisor/,
  },
  {
    name: 'whose init container mounts more',
    refused: init((c) => void c.volumeMounts.push({ name: 'host-1', mountPath: '/w' })),
    says: /own supervisor/,
  },
  {
    name: 'whose init container adds SYS_PTRACE',
    refused: init((c) => void c.securityContext.capabilities.add.push('SYS_PTRACE')),
    says: /NET_ADMIN alone/,
  },
  {
    name: 'whose init container writes its root',
    refused: init((c) => void Object.assign(c.securityContext, { readOnlyRootFilesystem: false })),
    says: /NET_ADMIN alone/,
  },
  {
    name: 'with a probe',
    refused: container((c) => void Object.assign(c, { livenessProbe: { httpGet: { host: '169.254.169.254', path: '/', port: 80 } } })),
    says: /probes/,
  },
  {
    name: 'with a hook',
    refused: container((c) => void Object.assign(c, { lifecycle: { preStop: { exec: { command: ['true'] } } } })),
    says: /hooks/,
  },
  { name: 'without a limit of memory', refused: container((c) => void delete c.resources.limits.memory), says: /limited/ },
  { name: 'without a limit of CPU', refused: container((c) => void delete c.resources.limits.cpu), says: /limited/ },
  {
    name: 'with another runtime class',
    refused: (spec) => void Object.assign(spec, { runtimeClassName: 'another' }),
    says: /runtime class|RuntimeClass/,
  },
  {
    name: 'with a priority of the system',
    refused: (spec) => void Object.assign(spec, { priorityClassName: 'system-node-critical' }),
    says: /priority/,
  },
]

/** The same of a pod template. */
export const templateOf = ({ metadata, spec }: PodManifest): object => ({
  metadata,
  template: { metadata: { labels: metadata.labels }, spec },
})
