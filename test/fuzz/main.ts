// Feeds every program that takes bytes from strangers for a while, and prints how often, as a table. See docs/fuzzing.md.
import { randomInt } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runTarget } from './run.ts'
import { runSupervisor, SUPERVISOR_TARGETS } from './supervisor.ts'
import { TARGETS } from './targets.ts'

const NAMES = [...Object.keys(TARGETS), ...Object.keys(SUPERVISOR_TARGETS)]
const FAILURES = new URL('../../.tools/fuzz/', import.meta.url).pathname

const HELP = `usage: npm run fuzz -- [--seconds N] [--target NAME]... [--seed N] [--input FILE]

  --seconds N    for each target; 60. All of them for an hour: --seconds ${Math.ceil(3600 / NAMES.length)}
  --target NAME  only this one: ${NAMES.join(', ')}
  --seed N       what the inputs follow from; by chance
  --input FILE   one input once more, as hexadecimal text, for one --target

A failing input is written to .tools/fuzz.`

type Result = { executions: number; accepted: string; failure: string | undefined }

const { values } = parseArgs({
  options: {
    help: { type: 'boolean' },
    seconds: { type: 'string', default: '60' },
    target: { type: 'string', multiple: true, default: NAMES },
    seed: { type: 'string', default: String(randomInt(2 ** 31 - 1)) },
    input: { type: 'string' },
  },
})
const [seconds, seed] = [Number(values.seconds), Number(values.seed)]
const wrong = values.target.find((name) => !NAMES.includes(name))
if (values.help === true) console.log(HELP)
else if (wrong !== undefined || !(seconds > 0) || !Number.isSafeInteger(seed)) {
  console.error(wrong === undefined ? HELP : `no such target: ${wrong}\n\n${HELP}`)
  process.exitCode = 2
} else if (values.input !== undefined) await replay(values.target[0] as string, values.input)
else await runAll()

async function runAll(): Promise<void> {
  console.log(`seed ${seed}, ${seconds} s for each of ${values.target.length} targets\n`)
  console.log(row('target', 'executions', 'accepted', 'failure'))
  let sum = 0
  for (const name of values.target) {
    const { executions, accepted, failure } = await run(name)
    sum += executions
    if (failure !== undefined) process.exitCode = 1
    console.log(row(name, executions.toLocaleString('en'), accepted, failure ?? 'none'))
  }
  console.log(`\n${sum.toLocaleString('en')} executions, ${process.exitCode === 1 ? 'with failures' : '0 failures'}`)
}

async function run(name: string): Promise<Result> {
  const test = SUPERVISOR_TARGETS[name]
  if (test !== undefined) return { accepted: '', ...(await runSupervisor(test, { seconds, seed })) }
  const target = targetOf(name)
  const { executions, accepted, failure } = await runTarget(target, {
    seed,
    executions: Number.MAX_SAFE_INTEGER,
    milliseconds: seconds * 1000,
  })
  const share = `${Math.round((100 * accepted) / executions)} %`
  return { executions, accepted: share, failure: failure && kept(name, failure) }
}

/** Writes a failing input down, and says where. */
function kept(name: string, { input, cause }: { input: Buffer; cause: unknown }): string {
  mkdirSync(FAILURES, { recursive: true })
  const path = join(FAILURES, `${name}-${seed}.hex`)
  writeFileSync(path, `${input.toString('hex')}\n`)
  console.error(cause)
  return path
}

async function replay(name: string, path: string): Promise<void> {
  const input = Buffer.from(readFileSync(path, 'utf8').trim(), 'hex')
  console.log(JSON.stringify(input.toString('latin1')))
  console.log((await targetOf(name).check(input)) ? 'accepted' : 'refused')
}

function targetOf(name: string) {
  const target = TARGETS[name]
  if (target === undefined) throw new Error(`${name} is tested by cargo, which says the failing input itself`)
  return target
}

function row(target: string, executions: string, accepted: string, failure: string): string {
  return `${target.padEnd(18)}${executions.padStart(14)}${accepted.padStart(10)}  ${failure}`
}
