/** Seconds. */
const DEFAULT = 30
const LEAST = 1
/** A day; longer steps want another product. */
const MOST = 86_400

/** What SBS_STEP_TIMEOUT_SEC says [3-43]. `warning` is for whoever started the server. */
export function readStepTimeout(text: string | undefined): { seconds: number; warning?: string } {
  if (text === undefined || text.trim() === '') return { seconds: DEFAULT }
  const seconds = Number(text)
  if (Number.isFinite(seconds)) return { seconds: Math.min(Math.max(seconds, LEAST), MOST) }
  return { seconds: DEFAULT, warning: `SBS_STEP_TIMEOUT_SEC is not a number of seconds; steps may take ${DEFAULT} s` }
}
