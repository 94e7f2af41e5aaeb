/** What a row is given: two running stacks and the image that both the product and the comparison use. */
export type RowContext = {
  docker: StackAddress
  local: StackAddress
  image: string
  scratch: string
}
export type StackAddress = { brokerUrl: string; apiKey: string; brokerPid: number; agentPid: number; agentUrl: string; dataDir: string }

/** One line of the table. `passed` compares the measured figure with `must`. */
export type Row = {
  row: string
  measured: string
  comparison: string
  must: string
  stretch: string
  passed: boolean
  figures: Record<string, number>
}
export type RowModule = { run(context: RowContext): Promise<Row[]> }

export const round = (value: number, digits = 2): number => Number(value.toFixed(digits))
