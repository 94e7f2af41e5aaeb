import { parseArgs } from 'node:util'
import { run as chaos } from './chaos/chaos.ts'
import { type Part, print } from './part.ts'
import { run as pods } from './pods/pods.ts'
import { run as simulation } from './simulation/simulation.ts'

/** `npm run test:scale -- [PART…] [--OPTION VALUE…]`: what is too large, or takes too long, for `npm test`. Each part prints what it measures. */
const PARTS: Readonly<Record<string, Part>> = { chaos, simulation, pods }

/** Of all parts; what they mean, docs/scale.md says. */
const OPTIONS = ['brokers', 'clients', 'seconds', 'agents', 'sessions', 'few', 'used', 'heap', 'pods']

const refuse = (why: string): never => {
  process.stderr.write(`test:scale: ${why}\n`)
  process.exit(2)
}

const parse = (): { values: Record<string, string>; positionals: string[] } => {
  try {
    const parsed = parseArgs({
      allowPositionals: true,
      options: Object.fromEntries(OPTIONS.map((name) => [name, { type: 'string' }] as const)),
    })
    return { ...parsed, values: parsed.values as Record<string, string> }
  } catch (thrown) {
    return refuse((thrown as Error).message)
  }
}

const { values: options, positionals: names } = parse()
const unknown = names.filter((name) => !Object.hasOwn(PARTS, name))
if (unknown.length > 0) refuse(`there is no part ${unknown.join(', ')}; there are ${Object.keys(PARTS).join(', ')}`)
for (const [name, value] of Object.entries(options)) {
  if (!/^[1-9]\d*(,[1-9]\d*)*$/.test(value)) refuse(`--${name} must be a number, was ${JSON.stringify(value)}`)
}
let [passed, failed] = [0, 0]
for (const [name, run] of Object.entries(PARTS)) {
  if (names.length > 0 && !names.includes(name)) continue
  const begun = performance.now()
  const holds = await run(options).catch((thrown: unknown) => {
    print(String(thrown instanceof Error ? (thrown.stack ?? thrown) : thrown))
    return false
  })
  if (holds) passed++
  else failed++
  print({ part: name, holds, minutes: Math.round((performance.now() - begun) / 6000) / 10 })
}
print(`${passed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
