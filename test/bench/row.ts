import type { RowContext, RowModule } from './rows/row.ts'

// A process of its own for each row: nothing that one row left in memory weighs on the next. Told what to do by two
// arguments; answers with one JSON line.
const [name, context] = process.argv.slice(2)
const { run } = (await import(`./rows/${name}.ts`)) as RowModule
const rows = await run(JSON.parse(String(context)) as RowContext)
process.stdout.write(`${JSON.stringify(rows)}\n`)
process.exit(0)
