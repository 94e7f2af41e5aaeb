import { z } from 'zod'

/** Everything that is there only for speed. What is off is done the plain way, which has the same outcome. */
export const FastIo = z.strictObject({
  splice: z
    .boolean()
    .default(true)
    .describe('the rest of a large upload goes from connection to connection in the kernel; off: it is copied'),
  gcHint: z.boolean().default(true).describe('the collector is asked early to free what streams have read; off: it decides by itself'),
  bufferPool: z.boolean().default(true).describe('memory of outgoing messages is used again; off: each message has its own'),
  sharedReads: z.boolean().default(true).describe('all supervisors are read into one buffer; off: each read has its own'),
  readAhead: z.boolean().default(true).describe('small files of an archive are read four ahead; off: one after another'),
  prefork: z.boolean().default(true).describe('first processes of local sandboxes are forked ahead; off: at the request'),
  prewarm: z.boolean().default(true).describe('directories and sockets of sandboxes are made ahead; off: at the request'),
})
export type FastIo = z.output<typeof FastIo>

let chosen: FastIo = FastIo.parse({})

/** Switches tricks on and off for this process, from now on: memory, collector and processes are its own, not those of one listener. */
export const setFastIo = (settings: Partial<FastIo>): void => {
  chosen = FastIo.parse(settings)
}

export const isFast = (trick: keyof FastIo): boolean => chosen[trick]
