import { execFileSync } from 'node:child_process'
import { kubectl } from '../../../cluster/kubectl.ts'
import { supervisorOf } from '../traces.ts'
import type { ProviderName } from './place.ts'

/** Ends a sandbox behind its agent's back. `pid`: any process in it. */
export const loseSandbox = async (provider: ProviderName, id: string, pid: number): Promise<void> => {
  if (provider === 'docker') {
    const found = execFileSync('docker', ['ps', '-q', '--filter', `label=boxoffice.sandbox_id=${id}`], { encoding: 'utf8' })
    execFileSync('docker', ['rm', '-f', found.trim()])
  } else if (provider === 'kubernetes') {
    await kubectl(['delete', 'pod', '--all-namespaces', '-l', `boxoffice.dev/sandbox=${id}`, '--wait=false'])
  } else {
    process.kill(supervisorOf(pid), 'SIGKILL')
  }
}
