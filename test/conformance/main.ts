import { parseArgs } from 'node:util'
import { allCases } from './cases/index.ts'
import { report, runCases } from './run.ts'
import { Target } from './target.ts'

/**
 * Drives a broker and its dataplane by URL:
 *
 *   node test/conformance/main.ts --broker http://127.0.0.1:7070 --key bxo_… [--relay] [--only 4-13] [--width 4]
 *
 * The key is an operator's of the root tenant; the broker offers the profiles of `test/conformance/broker.json`.
 */
const { values } = parseArgs({
  options: {
    broker: { type: 'string' },
    key: { type: 'string' },
    relay: { type: 'boolean', default: false },
    only: { type: 'string' },
    width: { type: 'string', default: '4' },
  },
})
const { broker, key, relay, only, width } = values
if (broker === undefined || key === undefined) {
  console.error('usage: node test/conformance/main.ts --broker URL --key KEY [--relay] [--only NUMBER] [--width N]')
  process.exit(2)
}
const cases = only === undefined ? allCases : allCases.filter(({ numbers }) => numbers.includes(only))
const outcomes = await runCases(cases, new Target({ broker, key, mode: relay ? 'relay' : 'direct' }), Number(width))
console.log(report(outcomes))
process.exit(outcomes.every(({ failure }) => failure === null) ? 0 : 1)
