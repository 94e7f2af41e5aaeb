import { type Client, isCode } from '@boxoffice/client'
import { readingsOf, type SandboxLocation } from './location.ts'

/** Which thread and path a location means: thread ids may have colons, so that of a session that is there decides. */
export const locate = async (client: Client, location: SandboxLocation): Promise<SandboxLocation> => {
  const readings = readingsOf(location)
  if (readings.length === 1) return location
  for (const reading of readings) {
    if (await hasSession(client, String(reading.thread))) return reading
  }
  return location
}

const hasSession = async (client: Client, thread: string): Promise<boolean> => {
  try {
    await client.session(thread, { mode: 'get' })
    return true
  } catch (error) {
    if (isCode(error, 'BINDING_NOT_FOUND') || isCode(error, 'INVALID_REQUEST')) return false
    throw error
  }
}
