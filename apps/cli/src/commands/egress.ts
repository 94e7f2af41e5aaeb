import { text } from 'node:stream/consumers'
import type { EgressPolicyInput } from '@boxoffice/client'
import { Command } from 'commander'
import { type ConnectionFlags, withConnection } from '../settings/connection.ts'
import { withSession } from '../settings/open-session.ts'
import { UsageError } from '../settings/usage-error.ts'
import { printJson } from '../terminal/output.ts'

export const egressCommand = (): Command =>
  new Command('egress')
    .summary('say where programs of a sandbox may connect to')
    .addCommand(
      withConnection(new Command('show'))
        .summary('print the policy that holds now, as JSON')
        .argument('<thread>', 'thread of the sandbox')
        .action((thread: string, flags: ConnectionFlags) =>
          withSession(flags, thread, async ({ egress }) => printJson(await egress.get())),
        ),
    )
    .addCommand(
      withConnection(new Command('set'))
        .summary('replace the policy by one from stdin, as JSON, and print what holds then')
        .argument('<thread>', 'thread of the sandbox')
        .action((thread: string, flags: ConnectionFlags) =>
          withSession(flags, thread, async ({ egress }) => printJson(await egress.set(readPolicy(await text(process.stdin))))),
        ),
    )
    .addCommand(
      withConnection(new Command('reset'))
        .summary('let the policy of the profile hold again')
        .argument('<thread>', 'thread of the sandbox')
        .action((thread: string, flags: ConnectionFlags) =>
          withSession(flags, thread, async ({ egress }) => printJson(await egress.reset())),
        ),
    )

const readPolicy = (json: string): EgressPolicyInput => {
  try {
    return JSON.parse(json) as EgressPolicyInput
  } catch {
    throw new UsageError('the policy on stdin is not JSON, e.g. {"allow":["packages.example.com"]}')
  }
}
