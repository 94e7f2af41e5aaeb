const DEFAULT_WAIT_SECONDS = 10
const MAX_WAIT_SECONDS = 60

/** `Prefer: wait=N` [C-17]; other preferences are ignored, as RFC 7240 wants. */
export function waitSeconds(prefer: string | undefined): number {
  const wait = prefer === undefined ? undefined : /(?:^|[,;\s])wait="?(\d{1,9})"?/i.exec(prefer)?.[1]
  return wait === undefined ? DEFAULT_WAIT_SECONDS : Math.min(Number(wait), MAX_WAIT_SECONDS)
}
