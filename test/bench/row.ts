import { writeFileSync } from 'node:fs'
import type { Needs, Row, RowContext, RowModule, RowResult, StackAddress } from './rows/row.ts'
import { startStack } from './stack.ts'

// A process of its own for each row, with stacks of its own: nothing that one row left weighs on the next. Its arguments are the
// name of the row, the image, a scratch directory and the file for its result.
const [name, image = '', scratch = '', out = ''] = process.argv.slice(2)

// The bench ends a row that hangs; its stacks end with it.
const ended = new Promise<never>((_, reject) => process.once('SIGTERM', () => reject(new Error('ended by the bench: it took too long'))))
ended.catch(() => undefined) // before anything waits for it

const measure = async (): Promise<RowResult> => {
  const rows: Row[] = []
  try {
    const { needs, run } = (await import(`./rows/${name}.ts`)) as RowModule
    await using stacks = new AsyncDisposableStack()
    const context = await startStacks(needs, stacks)
    await Promise.race([collect(run(context), rows), ended])
  } catch (error) {
    return { rows, error: wordsOf(error) }
  }
  return { rows }
}

/** With what caused it: `fetch` says no more of itself than that it failed. */
const wordsOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : wordsOf(error.cause)
  return error.message.includes(cause) ? error.message : `${error.message}: ${cause}`
}

const collect = async (lines: Promise<Row[]> | AsyncIterable<Row>, rows: Row[]): Promise<void> => {
  if (lines instanceof Promise) return void rows.push(...(await lines))
  for await (const line of lines) rows.push(line)
}

const startStacks = async (needs: Needs, stacks: AsyncDisposableStack): Promise<RowContext> => {
  const started: Partial<Record<'docker' | 'local', StackAddress>> = {}
  for (const provider of ['docker', 'local'] as const) {
    const profiles = needs[provider]
    if (profiles === undefined) continue
    const stack = await startStack({ name: provider, provider, scratch, profiles })
    stacks.defer(stack.stop)
    started[provider] = stack.address
  }
  const needed = (provider: 'docker' | 'local'): StackAddress => {
    const address = started[provider]
    if (address === undefined) throw new Error(`the row does not say that it needs a ${provider} stack`)
    return address
  }
  return {
    image,
    scratch,
    get docker() {
      return needed('docker')
    },
    get local() {
      return needed('local')
    },
  }
}

writeFileSync(out, JSON.stringify(await measure()))
process.exit(0)
