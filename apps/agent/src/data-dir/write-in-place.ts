import { closeSync, constants, ftruncateSync, openSync, writeSync } from 'node:fs'

/**
 * Writes a file as it stands, and makes it where it is not there; a crash can tear it. For what is written more than once on the way
 * to a new sandbox: a new file takes ten times as long, because ext4 looks at every inode that was freed lately, and one that was cut
 * to nothing before is sent to the disk at once. Synchronous: a trip to the thread pool costs more than these calls.
 */
export const writeInPlace = (path: string, text: string): void => {
  const bytes = Buffer.from(text)
  const descriptor = openSync(path, constants.O_WRONLY | constants.O_CREAT, 0o600)
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(descriptor, bytes, at, bytes.length - at, at)
    ftruncateSync(descriptor, bytes.length)
  } finally {
    closeSync(descriptor)
  }
}
