import { Presets, SingleBar } from 'cli-progress'

export type Progress = { advance(bytes: number): void; stop(): void }

const MiB = 1024 * 1024

/** A bar on stderr when that is a terminal, else nothing. `total` in bytes; undefined where nobody knows it. */
export const startProgress = (label: string, total: number | undefined): Progress => {
  if (!process.stderr.isTTY) return { advance() {}, stop() {} }
  let bytes = 0
  const known = total !== undefined && total > 0
  const format = known ? `${label} {bar} {percentage}%  {done} of {all} MiB  {eta_formatted} left` : `${label} {done} MiB`
  const bar = new SingleBar({ format, stream: process.stderr, hideCursor: null, etaBuffer: 50 }, Presets.shades_classic)
  const shown = () => ({ done: (bytes / MiB).toFixed(1), all: ((total ?? 0) / MiB).toFixed(1) })
  bar.start(known ? total : 1, 0, shown())
  return {
    advance(count) {
      bytes += count
      bar.update(known ? Math.min(bytes, total) : 0, shown())
    },
    stop: () => bar.stop(),
  }
}
