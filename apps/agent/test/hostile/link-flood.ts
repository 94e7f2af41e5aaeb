import { readdirSync } from 'node:fs'
import { type Logger, pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run, start } from '../host/support/exec.ts'
import { Host, type OpenProvider } from '../host/support/host.ts'

const PROCESSES = 8
const DIALS_EACH = 500

/** Each process dials, says nothing, and holds its connections until all have dialled. */
const FLOOD = `perl <<'PERL'
use Socket;
pipe(my $dialled, my $say) and pipe(my $gate, my $keep) or die;
for (1..${PROCESSES}) {
  next if fork();
  close($keep);
  my @held;
  for (1..${DIALS_EACH}) {
    socket(my $s, AF_UNIX, SOCK_STREAM, 0) or exit 1;
    connect($s, pack_sockaddr_un("/.boxoffice/link/link.sock")) or last;
    push @held, $s;
  }
  syswrite($say, "d");
  close($say);
  sysread($gate, my $nothing, 1);
  exit 0;
}
close($say);
my $count = 0;
while (sysread($dialled, my $one, 1)) { $count++ }
close($keep);
1 while wait() > 0;
print "$count dialled\\n";
PERL`

/** The agent's parts run in this process. */
const descriptors = (): number => readdirSync('/proc/self/fd').length

type Line = { msg: string; why?: string; unlogged?: number }

const collectLog = (): { log: Logger; lines: Line[] } => {
  const lines: Line[] = []
  return { log: pino({ level: 'warn' }, { write: (line: string) => lines.push(JSON.parse(line) as Line) }), lines }
}

/** A sandbox whose processes dial the agent's socket without a hello takes few descriptors, few log lines, and nothing from others. */
export const linkFloodSuite = (open: OpenProvider): void => {
  const { log, lines } = collectLog()
  let host: Host
  beforeAll(async () => {
    host = await Host.start(open, undefined, log)
  })
  afterAll(() => host.close())

  test('4,000 dials without a hello: a neighbour works on', { timeout: 120_000 }, async () => {
    const attacker = await host.ensure('attacker', { pids_limit: 64, memory_mb: 256 })
    const neighbour = await host.ensure('neighbour')
    expect((await run(neighbour, 'echo there')).stdout).toBe('there\n')
    const before = descriptors()
    const begun = performance.now()
    let most = before
    const look = setInterval(() => {
      most = Math.max(most, descriptors())
    }, 1)
    try {
      const flood = await start(attacker.link, FLOOD)
      const ended = flood.ended.then(() => true)
      let answers = 0
      do {
        expect((await run(neighbour, 'echo there')).stdout).toBe('there\n')
        answers++
      } while (!(await Promise.race([ended, false])))
      expect(await flood.ended).toMatchObject({ stdout: `${PROCESSES} dialled\n`, code: 0 })
      expect(answers).toBeGreaterThan(0)
    } finally {
      clearInterval(look)
    }
    most = Math.max(most, descriptors())
    expect(most - before).toBeLessThan(64)
    const refusals = lines.filter(({ msg }) => msg === 'supervisor connection refused')
    expect(refusals.length).toBeGreaterThan(0)
    expect(refusals.length).toBeLessThanOrEqual((performance.now() - begun) / 1000 + 1)
    // Its own supervisor has the link secret, so it gets through as well.
    expect((await run(attacker, 'echo there')).stdout).toBe('there\n')
  })
}
