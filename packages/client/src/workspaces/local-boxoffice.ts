import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { workspaceError } from './workspace-error.ts'

export type Endpoint = { url: string; apiKey: string }

/** A `boxoffice up` of this process: it ends with it, with all its sandboxes. */
export type LocalBoxoffice = Endpoint & { ended: () => boolean; stop(): Promise<void> }

export type LocalBoxofficeOptions = { boxofficePath?: string | undefined; supervisorPath?: string | undefined }

const MAX_STDERR = 16_384

/** Its data goes after it, however this process ends: the shell outlives both. A signal to the whole group does not take the shell first. */
const SCRIPT = `trap : INT TERM HUP; directory=$1; shift; "$@"; code=$?; rm -rf -- "$directory"; exit $code`

/** Starts one on loopback, on free ports, that mounts directories below `root` only. */
export const startBoxoffice = async (root: string, { boxofficePath, supervisorPath }: LocalBoxofficeOptions): Promise<LocalBoxoffice> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'boxoffice-workspaces-'))
  const config = join(dataDir, 'config.json')
  await writeFile(config, JSON.stringify({ allowed_host_mount_roots: [root], destroy_on_exit: true }))
  const apiKey = `bxo_${randomBytes(32).toString('base64url')}`
  const program = boxofficePath ?? shipped()
  const up = ['up', '--host', '127.0.0.1', '--port', '0', '--agent-port', '0', '--data-dir', dataDir, '--config', config]
  const rest = [
    '--log-level',
    'warn',
    '--until-stdin-ends',
    '--json',
    ...(supervisorPath === undefined ? [] : ['--supervisor-path', supervisorPath]),
  ]
  const child = spawn('/bin/sh', ['-c', SCRIPT, 'boxoffice-workspaces', dataDir, program, ...up, ...rest], {
    stdio: ['pipe', 'pipe', 'pipe'],
    // In the environment, where `ps` does not show it.
    env: { ...process.env, BOXOFFICE_API_KEY: apiKey },
  })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const url = await readyUrl(child, program)
  letGo(child)
  let ended = false
  void closed.then(() => {
    ended = true
  })
  return {
    url,
    apiKey,
    ended: () => ended,
    async stop() {
      child.ref()
      child.stdin?.end()
      await closed
    },
  }
}

/** Its ready line, or why there was none. */
const readyUrl = (child: ChildProcess, program: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let [stdout, stderr] = ['', '']
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-MAX_STDERR)
    })
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      const end = stdout.indexOf('\n')
      if (end !== -1) resolve((JSON.parse(stdout.slice(0, end)) as { broker_url: string }).broker_url)
    })
    child.stdin?.on('error', () => {})
    const failed = (why: string) =>
      reject(workspaceError('BACKEND_UNAVAILABLE', `no endpoint is given, and ${program} up does not start: ${why}`))
    child.once('error', (error) => failed(error.message))
    child.once('close', () => failed(stderr.trim() || 'it ended'))
  })

/** This process may end while it runs. */
const letGo = (child: ChildProcess): void => {
  child.unref()
  for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as Socket | null)?.unref()
}

/** The one that this package came with, else the one in PATH. */
const shipped = (): string => {
  const path = fileURLToPath(new URL('../../../../apps/cli/bin/boxoffice', import.meta.url))
  return existsSync(path) ? path : 'boxoffice'
}
