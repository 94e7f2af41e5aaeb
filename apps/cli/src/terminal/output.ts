import { once } from 'node:events'
import type { Writable } from 'node:stream'

/** Copies a stream to a file descriptor at the pace of its reader. */
export const pour = async (source: AsyncIterable<Uint8Array>, target: Writable): Promise<void> => {
  for await (const bytes of source) if (!target.write(bytes)) await once(target, 'drain')
}

/** Ends the program when everything that was written has left it: pipes are asynchronous, `process.exit` alone would cut. */
export const leave = async (code: number): Promise<never> => {
  await Promise.all([process.stdout, process.stderr].map((stream) => new Promise<void>((resolve) => stream.write('', () => resolve()))))
  process.exit(code)
}

/** Lines of columns, each as wide as its widest cell. */
export const table = (header: readonly string[], rows: readonly (readonly string[])[]): string => {
  const widths = header.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [header, ...rows].map((cells) => `${line(cells)}\n`).join('')
}

export const printJson = (value: unknown): void => {
  process.stdout.write(`${JSON.stringify(value)}\n`)
}
