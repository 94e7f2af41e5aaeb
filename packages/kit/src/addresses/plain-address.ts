/** An IP address as one writes it: a dual-stack listener tells of 10.0.0.1 as `::ffff:10.0.0.1`. */
export const plainAddress = (address: string): string => (MAPPED.test(address) ? address.slice(PREFIX.length) : address)

const PREFIX = '::ffff:'
const MAPPED = /^::ffff:[\d.]+$/i
