import { execFileSync } from 'node:child_process'
import { supervisorOf } from '../traces.ts'
import type { ProviderName } from './place.ts'

/** Ends a sandbox behind its agent's back. `pid`: any process in it. */
export const loseSandbox = (provider: ProviderName, id: string, pid: number): void => {
  if (provider === 'docker') {
    const found = execFileSync('docker', ['ps', '-q', '--filter', `label=boxoffice.sandbox_id=${id}`], { encoding: 'utf8' })
    execFileSync('docker', ['rm', '-f', found.trim()])
  } else {
    process.kill(supervisorOf(pid), 'SIGKILL')
  }
}
