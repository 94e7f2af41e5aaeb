import type { Profile } from '@boxoffice/protocol'

/** What the supervisor of such a sandbox is started with, by every provider: with the network `none` its filter refuses all sockets but unix ones. */
export const supervisorArguments = ({ network }: Pick<Profile, 'network'>): string[] => (network === 'none' ? ['--no-inet'] : [])
