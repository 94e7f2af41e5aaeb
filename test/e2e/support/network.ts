import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { networkInterfaces } from 'node:os'

const run = (program: string, ...args: string[]): string =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
const ip = (...args: string[]): string => run('ip', ...args)

/** One machine of a test: a network namespace with an address of its own. */
export type Machine = {
  address: string
  /** What to put before a program so that it runs there, with this machine's files and processes. */
  enter: readonly string[]
  /** Pulls its cable, or puts it back. */
  unplug(): void
  plug(): void
}

/** Machines around one switch, and this one beside them. */
export type Network = { machines: Record<string, Machine>; [Symbol.dispose](): void }

/** Suites that may run at the same time have numbers below this. */
const SUITES = 8

/** The first of `suite`, `suite + SUITES`, … whose 10.213.x.0/24 is not in use here: a run that was killed leaves its network behind. */
const freeSubnet = (suite: number): number => {
  const used = Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address))
  let subnet = suite
  while (used.some((address) => address.startsWith(`10.213.${subnet}.`))) subnet += SUITES
  return subnet
}

/**
 * Makes a network namespace for each name, joined by a bridge that has a namespace to itself, so that no firewall rule of this
 * machine applies to it. Takes root. `suite` (0 to 7) keeps suites that run at the same time apart.
 */
export const makeNetwork = (names: readonly string[], suite: number): Network => {
  const subnet = freeSubnet(suite)
  const tag = `bxo${randomBytes(3).toString('hex')}`
  const spaces: string[] = []
  const addSpace = (name: string): string => {
    const space = `${tag}-${name}`
    ip('netns', 'add', space)
    spaces.push(space)
    ip('-n', space, 'link', 'set', 'lo', 'up')
    return space
  }
  const dispose = (): void => {
    // A pair of devices goes with either end.
    for (const space of spaces) ip('netns', 'del', space)
  }
  try {
    const center = addSpace('switch')
    ip('-n', center, 'link', 'add', 'br0', 'type', 'bridge')
    ip('-n', center, 'link', 'set', 'br0', 'up')
    /** A cable from `device` (here, or in a namespace) to the switch; answers with the name of its end at the switch. */
    const cable = (device: string, port: string, space: string | null, host: number): void => {
      const where = space === null ? [] : ['-n', space]
      ip('link', 'add', device, 'type', 'veth', 'peer', 'name', port, 'netns', center)
      if (space !== null) ip('link', 'set', device, 'netns', space)
      ip('-n', center, 'link', 'set', port, 'master', 'br0', 'up')
      ip(...where, 'address', 'add', `10.213.${subnet}.${host}/24`, 'dev', device)
      ip(...where, 'link', 'set', device, 'up')
    }
    cable(tag, 'here', null, 1)
    const machines = Object.fromEntries(
      names.map((name, index): [string, Machine] => {
        const space = addSpace(name)
        cable(`${tag}${index}`, name, space, index + 2)
        const set = (state: 'up' | 'down') => () => void ip('-n', center, 'link', 'set', name, state)
        return [
          name,
          {
            address: `10.213.${subnet}.${index + 2}`,
            enter: ['nsenter', `--net=/run/netns/${space}`],
            unplug: set('down'),
            plug: set('up'),
          },
        ]
      }),
    )
    return { machines, [Symbol.dispose]: dispose }
  } catch (thrown) {
    dispose()
    throw thrown
  }
}

/** A certificate authority's certificate and one for `addresses`, as PEM files below `directory`. */
export const makeCertificates = (directory: string, addresses: readonly string[]): { ca: string; cert: string; key: string } => {
  const path = (name: string): string => `${directory}/${name}.pem`
  const openssl = (...args: string[]): string => run('openssl', ...args)
  const fresh = (key: string) => ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', path(key)]
  openssl('req', '-x509', ...fresh('ca-key'), '-out', path('ca'), '-days', '2', '-subj', '/CN=test authority')
  openssl(
    ...[
      'req',
      '-x509',
      '-CA',
      path('ca'),
      '-CAkey',
      path('ca-key'),
      ...fresh('key'),
      '-out',
      path('cert'),
      '-days',
      '2',
      '-subj',
      '/CN=machines',
    ],
    ...[
      '-addext',
      `subjectAltName=${addresses.map((address) => `IP:${address}`).join(',')}`,
      '-addext',
      'basicConstraints=critical,CA:FALSE',
    ],
  )
  return { ca: path('ca'), cert: path('cert'), key: path('key') }
}
