import { basename, dirname, join } from 'node:path'
import { bindsOf, type SandboxSpec } from '../../sandbox/provider.ts'
import { supervisorArguments } from '../../sandbox/supervisor-arguments.ts'

export const LABEL = {
  managed: 'boxoffice.dev/managed',
  install: 'boxoffice.dev/install',
  sandbox: 'boxoffice.dev/sandbox',
  profileHash: 'boxoffice.dev/profile-hash',
  /** Whether the profile grants one, for network policies: `on` or `off`. */
  network: 'boxoffice.dev/network',
  /** Made ahead for the pool. */
  pooled: 'boxoffice.dev/pooled',
} as const

export type PodOptions = {
  /** Name of the node that the agent is on. */
  node: string
  installId: string
  imagePullPolicy: 'IfNotPresent' | 'Always' | 'Never'
  serviceAccount?: string | undefined
}

/** What sandboxes and kept templates are made of. Only fields that are read or copied here. */
export type PodManifest = { metadata: { name: string; labels: Record<string, string> }; spec: Record<string, unknown> }

/** The same for all incarnations of a sandbox, and for the template that a stopped one leaves. */
export const podName = (id: string): string => `bxo-${id.replace(/^sb_/, '')}`

/** Below the supervisor's own directory: root alone enters it, so no sandbox writes what is in it. */
export const CLOSED_DIRECTORY = 'closed'
export const TERMINATION_FILE = 'termination'

const TMP_BYTES = '64Mi'
const DROP_ALL = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } }

/** The hardening of the Kubernetes provider, in one pure function (contract 9). */
export const podOf = (id: string, spec: SandboxSpec, options: PodOptions): PodManifest => {
  const { profile } = spec
  const volumes = hostVolumes()
  const resources = resourcesOf(spec)
  const supervisor = volumes.mount(dirname(spec.supervisorPath), '/.boxoffice/supervisor', true, basename(spec.supervisorPath))
  const common = { image: profile.image ?? '', imagePullPolicy: options.imagePullPolicy, resources }
  const sandbox = {
    ...common,
    name: 'sandbox',
    workingDir: '/workspace',
    command: ['/.boxoffice/supervisor'],
    args: [
      ...['--socket', '/.boxoffice/link/link.sock', '--workspace', '/workspace', '--home', '/tmp/home'],
      // Of the container's own group, as both versions of control groups show it; the one that is not there is passed over.
      ...['--oom-file', '/sys/fs/cgroup/memory/memory.oom_control', '--oom-file', '/sys/fs/cgroup/memory.events'],
      // A pod has no field for it. Each sandbox has a user of its own.
      ...['--max-processes', String(profile.pids_limit)],
      ...supervisorArguments(profile),
    ],
    securityContext: { ...DROP_ALL, readOnlyRootFilesystem: profile.read_only_rootfs },
    // The kubelet mounts a file of the node there that everybody in the container may write without a limit.
    terminationMessagePath: `/.boxoffice/closed/${TERMINATION_FILE}`,
    volumeMounts: [
      ...bindsOf(spec).map(({ source, target, readOnly }) => volumes.mount(source, target, readOnly)),
      supervisor,
      volumes.mount(spec.linkDirectory, '/.boxoffice/link', true),
      volumes.mount(dirname(spec.supervisorPath), '/.boxoffice/closed', true, CLOSED_DIRECTORY),
      ...(profile.read_only_rootfs ? [{ name: 'tmp', mountPath: '/tmp' }] : []),
    ],
  }
  // Every pod gets a network device. The supervisor deletes it before the sandbox starts, so that this holds with any network
  // plugin, and with any image: it is static, and nothing of the image runs. Where nothing may have a socket of a network, the device
  // stays, and the sandbox starts a second earlier.
  const offline = {
    ...common,
    name: 'offline',
    command: ['/.boxoffice/supervisor', '--offline'],
    securityContext: {
      ...DROP_ALL,
      ...{ runAsUser: 0, runAsGroup: 0, runAsNonRoot: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] },
    },
    volumeMounts: [supervisor],
  }
  return {
    metadata: {
      name: podName(id),
      labels: {
        [LABEL.managed]: 'true',
        [LABEL.install]: options.installId,
        [LABEL.sandbox]: id,
        [LABEL.profileHash]: spec.profileHash,
        [LABEL.network]: profile.network === 'on' ? 'on' : 'off',
        ...(spec.pooled ? { [LABEL.pooled]: 'true' } : {}),
      },
    },
    spec: {
      affinity: onNode(options.node),
      // The sandbox stays with its node: another one has neither its workspace nor its agent.
      tolerations: ['not-ready', 'unreachable'].map((what) => ({
        key: `node.kubernetes.io/${what}`,
        ...{ operator: 'Exists', effect: 'NoExecute' },
      })),
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      ...(options.serviceAccount === undefined ? {} : { serviceAccountName: options.serviceAccount }),
      enableServiceLinks: false,
      hostname: 'sandbox',
      terminationGracePeriodSeconds: 1,
      ...(profile.oci_runtime === null ? {} : { runtimeClassName: profile.oci_runtime }),
      securityContext: {
        ...{ runAsUser: spec.uid, runAsGroup: spec.gid, runAsNonRoot: true },
        seccompProfile: { type: 'RuntimeDefault' },
      },
      ...(profile.network === 'off' || profile.network === 'proxy' ? { initContainers: [offline] } : {}),
      containers: [sandbox],
      volumes: [
        ...volumes.all(),
        ...(profile.read_only_rootfs ? [{ name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: TMP_BYTES } }] : []),
      ],
    },
  }
}

/** Placed by the scheduler, which knows quotas and what the node has left, and which `nodeName` would pass over. */
const onNode = (node: string): object => ({
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
    },
  },
})

/** Sandboxes idle for most of their time: little is reserved for each, as with other engines. */
const resourcesOf = ({ profile: { cpus, memory_mb } }: SandboxSpec): object => {
  const millis = Math.max(1, Math.round(cpus * 1000))
  return {
    requests: { cpu: `${Math.min(10, millis)}m`, memory: '16Mi' },
    limits: { cpu: `${millis}m`, memory: `${memory_mb}Mi` },
  }
}

/** Each directory of the host is one volume, however often it is mounted. */
const hostVolumes = () => {
  const sources = new Map<string, string>()
  return {
    mount(source: string, mountPath: string, readOnly: boolean, subPath?: string): object {
      const name = sources.get(source) ?? `host-${sources.size}`
      sources.set(source, name)
      return { name, mountPath, readOnly, ...(subPath === undefined ? {} : { subPath }) }
    },
    all: (): object[] => [...sources].map(([path, name]) => ({ name, hostPath: { path, type: 'Directory' } })),
  }
}

/** Where the closed directory of an installation is. */
export const closedDirectory = (dataDirectory: string): string => join(dataDirectory, 'bin', CLOSED_DIRECTORY)
