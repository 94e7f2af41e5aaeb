/**
 * The requirements of the seeds 000 to 003 that stand in a seed literally (S) or follow from it directly (I), as the contract
 * numbers them. Those of seed 004 are the cases of this directory.
 */
const NUMBERS: Record<string, string> = {
  '0': '01..10 13..18 20..33 36 40..47 50..53 55 56',
  '1': '01..09 11 12 20..29 31 40..46 48..58 60..63 70..73',
  '2': '01..12 14..16 20 21 23..33 40 43..47 49 50 60..67 69 80..96 110 112..116 118 130..132',
  '3': '01..27 29 40..47 60..65',
}

/** `'0-01..0-03, C-05'` → `['0-01', '0-02', '0-03', 'C-05']`; what is no number is passed over. */
export const numbersIn = (citation: string): string[] =>
  [...citation.matchAll(/\b([0-4C])-(\d{2,3})(?:\.\.(?:[0-4C]-)?(\d{2,3}))?/g)].flatMap(([, seed, first = '', last = first]) =>
    Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => `${seed}-${String(Number(first) + i).padStart(2, '0')}`),
  )

export const SEED_NUMBERS: readonly string[] = Object.entries(NUMBERS).flatMap(([seed, list]) =>
  list.split(' ').flatMap((item) => numbersIn(`${seed}-${item}`)),
)
