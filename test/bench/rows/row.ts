/** Which stacks a row is given; each is the row's own and ends with it. The value lists the profiles of the stack. */
export type Needs = {
  docker?: readonly object[]
  local?: readonly object[]
  /** The row starts docker stacks by itself. */
  engine?: true
  /** The row starts the one-node Kubernetes, or takes the one that runs. */
  cluster?: true
}

/** What a row is given: the stacks that it needs, and the image that both the product and the comparison use. */
export type RowContext = {
  docker: StackAddress
  local: StackAddress
  image: string
  scratch: string
}
export type StackAddress = { brokerUrl: string; apiKey: string; brokerPid: number; agentPid: number; agentUrl: string; dataDir: string }

/** One line of the table. `passed` compares the measured figure with `must`; undefined where there was nothing to compare with. */
export type Row = {
  row: string
  measured: string
  comparison: string
  must: string
  stretch: string
  passed: boolean | undefined
  figures: Record<string, number>
}
export type RowModule = {
  needs: Needs
  /** A row of many lines gives each as soon as it is measured: those before one that fails are printed. */
  run(context: RowContext): Promise<Row[]> | AsyncIterable<Row>
}

/** What the process of a row answers with: the lines it has measured, and why it has not measured more. */
export type RowResult = { rows: Row[]; error?: string }

export const round = (value: number, digits = 2): number => Number(value.toFixed(digits))
