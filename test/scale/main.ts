import { run as chaos } from './chaos/chaos.ts'
import { type Part, print } from './part.ts'
import { run as pods } from './pods/pods.ts'
import { run as simulation } from './simulation/simulation.ts'

/** `npm run test:scale -- [PART…] [--OPTION VALUE…]`: what is too large, or takes too long, for `npm test`. Each part prints what it measures. */
const PARTS: Readonly<Record<string, Part>> = { chaos, simulation, pods }

const names: string[] = []
const options: Record<string, string> = {}
const [, , ...words] = process.argv
for (let at = 0; at < words.length; at++) {
  const word = words[at] ?? ''
  if (word.startsWith('--')) options[word.slice(2)] = words[++at] ?? ''
  else names.push(word)
}
const unknown = names.filter((name) => !Object.hasOwn(PARTS, name))
if (unknown.length > 0) {
  process.stderr.write(`test:scale: there is no part ${unknown.join(', ')}; there are ${Object.keys(PARTS).join(', ')}\n`)
  process.exit(2)
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
