import { execFile } from 'node:child_process'
import { existsSync, lstatSync, readlinkSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { bindsOf, type SandboxSpec } from '../../sandbox/provider.ts'
import { supervisorArguments } from '../../sandbox/supervisor-arguments.ts'
import { rlimitArguments } from './rlimits.ts'

const run = promisify(execFile)

/** As Docker has it. */
const SHM_BYTES = 64 * 2 ** 20
const TMP_BYTES = 64 * 1024 * 1024
/** The only user there is inside. Outside it is the uid that owns the workspace. */
const INSIDE_ID = '1000'

/** Parts of the host's `/etc` that programs from its `/usr` cannot do without, and that hold no secrets. */
const COPIED_ETC = [
  'alternatives',
  'ld.so.cache',
  'ssl/certs',
  'ssl/openssl.cnf',
  'pki/tls/certs',
  'pki/ca-trust/extracted',
  'terminfo',
] as const

const GENERATED_ETC: Readonly<Record<string, string>> = {
  passwd: 'root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1000:1000::/tmp/home:/bin/bash\nnobody:x:65534:65534::/:/usr/sbin/nologin\n',
  group: 'root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost sandbox\n::1 localhost\n',
  'resolv.conf': '',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/**
 * Fills the directory that all sandboxes see as `/etc`, at each start of the agent. A copy, because each mount costs every
 * start of a sandbox a good part of a millisecond.
 */
export const generateEtc = async (directory: string): Promise<void> => {
  await mkdir(directory, { recursive: true, mode: 0o755 })
  for (const [name, content] of Object.entries(GENERATED_ETC)) await writeFile(join(directory, name), content)
  for (const name of COPIED_ETC) {
    if (!existsSync(join('/etc', name))) continue
    const parent = join(directory, dirname(name))
    await mkdir(parent, { recursive: true })
    // With modes and owners, so that what was closed stays closed; what an agent without root cannot read is passed over.
    await run('cp', ['-a', join('/etc', name), parent]).catch(() => {})
  }
}

/** `/bin`, `/lib` and their like: links into `/usr` on merged systems, directories of their own elsewhere. */
const SYSTEM_DIRECTORIES = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'].map((name) => `/${name}`).filter((path) => existsSync(path))

const SYSTEM_LINKS = SYSTEM_DIRECTORIES.flatMap((path) =>
  lstatSync(path).isSymbolicLink() ? ['--symlink', readlinkSync(path), path] : ['--ro-bind', path, path],
)

/** What of the host's own every sandbox is started from, and has inside. */
export const SYSTEM_PATHS: readonly string[] = ['/usr', ...SYSTEM_DIRECTORIES]

/** Of one sandbox before anything of its profile is known. Host paths as the sandbox's own uid can reach them. */
export type Settled = { link: string; oomFile: string | undefined }

export type BubblewrapPaths = Settled & {
  etc: string
  supervisor: string
  /** Whether no control group limits what can be limited without. */
  byRlimit: boolean
}

/** The namespaces of which every sandbox has the same: one that waits to become a sandbox can have its own already (launch.rs). */
export const NAMESPACES = ['--unshare-ipc', '--unshare-uts', '--unshare-net', '--hostname', 'sandbox'] as const

/** For one that finds none in its root directory (root.rs). */
export const DEVICES = ['--dev', '/dev', '--remount-ro', '/dev'] as const

const LINK = '/.boxoffice/link'
const SUPERVISOR = '/.boxoffice/supervisor'
const OOM = '/.boxoffice/oom'

/**
 * The arguments for what is settled before anybody asks for the sandbox, around the others. They are on the command line of the
 * process that stays outside, where a crash leaves it to be found by the path of its link.
 */
const around = ({ link, oomFile }: Settled, others: readonly string[], more: readonly string[]): string[] => [
  ...['--ro-bind', link, LINK, '--info-fd', '3'],
  ...(oomFile === undefined ? [] : ['--ro-bind', oomFile, OOM]),
  ...[...others, '--', SUPERVISOR, '--socket', `${LINK}/link.sock`, '--workspace', '/workspace', '--home', '/tmp/home'],
  ...(oomFile === undefined ? [] : ['--oom-file', OOM]),
  ...more,
]

/** Of one that is started ahead (launch.rs): it reads the others from descriptor 4. */
export const preforkArguments = (settled: Settled): string[] => around(settled, ['--args', '4'], [])

/**
 * The hardening of the local provider, in one pure function: what a sandbox sees, and nothing else. The supervisor comes after
 * everything that hides something, so that a list which was cut off starts nothing.
 */
export const sandboxArguments = (paths: BubblewrapPaths, spec: SandboxSpec): string[] => [
  ...['--unshare-user', '--disable-userns', '--uid', INSIDE_ID, '--gid', INSIDE_ID, '--cap-drop', 'ALL'],
  ...['--unshare-pid', '--unshare-cgroup-try', '--new-session', '--as-pid-1', '--clearenv'],
  ...['--setenv', 'PATH', '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
  ...['--ro-bind', '/usr', '/usr', ...SYSTEM_LINKS],
  ...['--ro-bind', paths.etc, '/etc'],
  // What is written to memory needs no disk and, where there are no control groups, has no other bound.
  ...['--proc', '/proc', '--perms', '1777', '--size', String(SHM_BYTES), '--tmpfs', '/dev/shm'],
  ...['--size', String(TMP_BYTES), '--tmpfs', '/tmp', '--dir', '/run', '--dir', '/var', '--symlink', '../tmp', '/var/tmp'],
  ...bindsOf(spec).flatMap(({ source, target, readOnly }) => [readOnly ? '--ro-bind' : '--bind', source, target]),
  ...['--chdir', '/workspace', '--ro-bind', paths.supervisor, SUPERVISOR],
  ...(spec.profile.read_only_rootfs ? ['--remount-ro', '/'] : []),
]

/** Everything at once, for one that is started when it is asked for. */
export const bubblewrapArguments = (paths: BubblewrapPaths, spec: SandboxSpec): string[] => [
  ...NAMESPACES,
  ...DEVICES,
  ...around(paths, sandboxArguments(paths, spec), [
    ...(paths.byRlimit ? rlimitArguments(spec.profile) : []),
    ...supervisorArguments(spec.profile),
  ]),
]
