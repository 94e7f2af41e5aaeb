import { parseArgs } from 'node:util'
import { allCases } from './cases/index.ts'
import { report, runCases } from './run.ts'
import { Target } from './target.ts'

const USAGE = `usage: npm run conformance -- [--broker URL] [--key KEY] [--relay] [--only NUMBER] [--width N]

Drives a broker and its dataplane by URL and reports by number of the contract. The key is an operator's of the root tenant.
Without --broker and --key: BOXOFFICE_URL (default http://127.0.0.1:7070) and BOXOFFICE_API_KEY, which \`boxoffice env\` prints.
Cases that need a profile of test/conformance/broker.json are skipped where the broker has none of that name.
`

const parsed = () => {
  try {
    return parseArgs({
      options: {
        broker: { type: 'string' },
        key: { type: 'string' },
        relay: { type: 'boolean', default: false },
        only: { type: 'string' },
        width: { type: 'string', default: '4' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }).values
  } catch (error) {
    return usage(2, (error as Error).message)
  }
}

const usage = (code: number, problem?: string): never => {
  if (problem !== undefined) console.error(`conformance: ${problem}\n`)
  console[code === 0 ? 'log' : 'error'](USAGE)
  process.exit(code)
}

const values = parsed()
if (values.help) usage(0)
const { relay, only, width } = values
const broker = values.broker ?? process.env.BOXOFFICE_URL ?? 'http://127.0.0.1:7070'
const key = values.key ?? process.env.BOXOFFICE_API_KEY ?? usage(2, 'no key: give --key, or type first: eval "$(boxoffice env)"')
const cases = only === undefined ? allCases : allCases.filter(({ numbers }) => numbers.includes(only))
if (cases.length === 0) usage(2, `no case has the number ${only}`)
const outcomes = await runCases(cases, new Target({ broker, key, mode: relay ? 'relay' : 'direct' }), Number(width))
console.log(report(outcomes))
process.exit(outcomes.every(({ failure }) => failure === null) ? 0 : 1)
