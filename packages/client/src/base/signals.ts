/** One signal that follows all of those given; undefined when there is none. */
export const anySignal = (...signals: (AbortSignal | undefined)[]): AbortSignal | undefined => {
  const present = signals.filter((signal) => signal !== undefined)
  return present.length <= 1 ? present[0] : AbortSignal.any(present)
}
