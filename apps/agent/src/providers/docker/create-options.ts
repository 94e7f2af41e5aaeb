import type Docker from 'dockerode'
import { bindsOf, type SandboxSpec } from '../../sandbox/provider.ts'
import { supervisorArguments } from '../../sandbox/supervisor-arguments.ts'

export const LABEL = {
  managed: 'boxoffice.managed',
  install: 'boxoffice.install_id',
  instance: 'boxoffice.instance_id',
  sandbox: 'boxoffice.sandbox_id',
  profileHash: 'boxoffice.profile_hash',
} as const

/** Which agent makes the containers: an installation, and one run of it [2-28]. */
export type Maker = { installId: string; instanceId: string }

const MiB = 1024 * 1024

/** The name of the network of those sandboxes whose profile grants one. */
export const networkName = (installId: string): string => `boxoffice-${installId}`

const bind = (source: string, target: string, readOnly = false): Docker.MountSettings => ({
  Type: 'bind',
  Source: source,
  Target: target,
  ReadOnly: readOnly,
})

/** The hardening of the docker provider, in one pure function (contract 9). Seccomp is the engine's default by not naming any. */
export const createOptions = (id: string, spec: SandboxSpec, maker: Maker): Docker.ContainerCreateOptions => {
  const { profile } = spec
  const memory = profile.memory_mb * MiB
  return {
    name: `bxo-${spec.pooled ? 'pool-' : ''}${id.replace(/^sb_/, '').slice(0, 13)}`,
    Image: profile.image ?? '',
    User: `${spec.uid}:${spec.gid}`,
    Hostname: 'sandbox',
    WorkingDir: '/workspace',
    Entrypoint: ['/.boxoffice/supervisor'],
    Cmd: [
      ...['--socket', '/.boxoffice/link/link.sock', '--workspace', '/workspace', '--home', '/tmp/home'],
      // Of the container's own group, as both versions of control groups show it; the one that is not there is passed over.
      ...['--oom-file', '/sys/fs/cgroup/memory/memory.oom_control', '--oom-file', '/sys/fs/cgroup/memory.events'],
      ...supervisorArguments(profile),
    ],
    Healthcheck: { Test: ['NONE'] },
    StopTimeout: 1,
    Labels: {
      [LABEL.managed]: 'true',
      [LABEL.install]: maker.installId,
      [LABEL.instance]: maker.instanceId,
      [LABEL.sandbox]: id,
      [LABEL.profileHash]: spec.profileHash,
      ...surfaceLabels(spec.labels ?? {}, maker.instanceId),
    },
    HostConfig: {
      Mounts: [
        ...bindsOf(spec).map(({ source, target, readOnly }) => bind(source, target, readOnly)),
        bind(spec.supervisorPath, '/.boxoffice/supervisor', true),
        bind(spec.linkDirectory, '/.boxoffice/link', true),
      ],
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Privileged: false,
      ReadonlyRootfs: profile.read_only_rootfs,
      ...(profile.read_only_rootfs ? { Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,mode=1777,size=${64 * MiB}` } } : {}),
      PidsLimit: profile.pids_limit,
      Memory: memory,
      // Equal to the memory: no swap on top of it.
      MemorySwap: memory,
      NanoCpus: Math.round(profile.cpus * 1e9),
      NetworkMode: profile.network === 'on' ? networkName(maker.installId) : 'none',
      IpcMode: 'private',
      Init: false,
      AutoRemove: false,
      LogConfig: { Type: 'none', Config: {} },
      RestartPolicy: { Name: '' },
      ...(profile.oci_runtime === null ? {} : { Runtime: profile.oci_runtime }),
    },
  }
}

/** What tools of the Box surface know its containers by [2-28]. Other labels of a session are the broker's alone. */
const surfaceLabels = (labels: Readonly<Record<string, string>>, instanceId: string): Record<string, string> => {
  const own = Object.fromEntries(Object.entries(labels).filter(([name]) => name.startsWith('langbot.')))
  return 'langbot.box' in own ? { ...own, 'langbot.box.instance_id': instanceId } : own
}
