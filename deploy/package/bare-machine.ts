import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Of the system's own tools what a minimal image has: no compiler, no cargo, no container engine, no bubblewrap. */
const TOOLS =
  'sh env bash cat chmod cp dirname basename echo head id ln ls mkdir mount mv printf pwd readlink rm sed sleep tail tr true umount uname wc'

const findInPath = (name: string): string | undefined =>
  (process.env.PATH ?? '')
    .split(delimiter)
    .map((directory) => join(directory, name))
    .find((path) => existsSync(path))

/** By which the registry is reached; everything else of this environment stays away. */
const NETWORK = /^(npm_config_registry|(https?|no)_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE)$/i

/** A machine that has Node with npm and a shell, as far as PATH, HOME and the environment can show one. */
export class BareMachine {
  /** Where its user works; empty at first. */
  readonly project: string
  /** Its commands. */
  readonly bin: string
  readonly #env: Record<string, string>

  constructor(directory: string) {
    const bin = join(directory, 'bin')
    this.bin = bin
    this.project = join(directory, 'project')
    for (const path of [bin, this.project, join(directory, 'home'), join(directory, 'tmp')]) mkdirSync(path)
    for (const tool of TOOLS.split(' ')) {
      const path = findInPath(tool)
      if (path !== undefined) symlinkSync(path, join(bin, tool))
    }
    symlinkSync(process.execPath, join(bin, 'node'))
    const npm = findInPath('npm')
    if (npm === undefined) throw new Error('there is no npm')
    const scripts = join(realpathSync(npm), '..')
    for (const name of ['npm', 'npx'])
      writeFileSync(join(bin, name), `#!/bin/sh\nexec node '${join(scripts, `${name}-cli.js`)}' "$@"\n`, { mode: 0o755 })
    const network = Object.entries(process.env).filter(([name]) => NETWORK.test(name)) as [string, string][]
    this.#env = {
      ...Object.fromEntries(network),
      PATH: bin,
      npm_config_update_notifier: 'false',
      HOME: join(directory, 'home'),
      TMPDIR: join(directory, 'tmp'),
    }
  }

  /** Its standard output. Throws where it fails. */
  run(command: string, args: readonly string[], env: Record<string, string> = {}): string {
    const stdio = ['ignore', 'pipe', 'inherit'] as const
    return execFileSync(join(this.#env.PATH ?? '', command), args, {
      cwd: this.project,
      env: { ...this.#env, ...env },
      encoding: 'utf8',
      stdio: [...stdio],
    })
  }

  start(command: string, args: readonly string[]): ChildProcess {
    return spawn(join(this.#env.PATH ?? '', command), args, { cwd: this.project, env: this.#env, stdio: ['ignore', 'pipe', 'inherit'] })
  }
}
