import type { RowResult } from './rows/row.ts'

/** Every line that was measured, and a line with its reason for each row that was not, as one table of Markdown. */
export const tableOf = (results: readonly (RowResult & { name: string })[]): string => {
  const lines = results.flatMap(({ name, rows, error }) => [
    ...rows.map((row) => [row.row, row.measured, row.comparison, row.must, row.stretch, verdict(row.passed)]),
    ...(error === undefined ? [] : [[name, `failed: ${oneLine(error)}`, '', '', '', 'FAILED']]),
  ])
  const [head, ...body] = [['row', 'measured', 'compared with', 'must', 'stretch', ''], ...lines].map(
    (cells) => `| ${cells.join(' | ')} |\n`,
  )
  return `${head}|${' --- |'.repeat(6)}\n${body.join('')}`
}

const verdict = (passed: boolean | undefined): string => (passed === undefined ? '' : passed ? 'ok' : 'SHORT')

/** The first line of a message, without what would end a cell. */
const oneLine = (message: string): string => {
  const [first = '', second] = message.split('\n').filter((line) => line.trim() !== '')
  return `${first}${second === undefined ? '' : ` ${second}`}`.slice(0, 300).replaceAll('|', '/')
}
