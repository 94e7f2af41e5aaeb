import { BoxofficeError, type Client, isCode, type Session, type SessionOptions } from '@boxoffice/client'
import { type ConnectionFlags, connectTo } from './connection.ts'

const WARNINGS: Readonly<Record<string, string>> = {
  profile_differs: 'the sandbox is there already, with another profile than the one asked for; it keeps its own',
  mounts_differ: 'the sandbox is there already, with other mounts; it keeps its own',
  provider_differs: 'the sandbox is at another provider than the one asked for',
}

/** The session of a thread, found or made; what the broker warns of is told once, on stderr. */
export const openSession = async (client: Client, thread: string, profile: string | undefined): Promise<Session> => {
  const session = await client.session(thread, { profile })
  for (const warning of session.warnings)
    process.stderr.write(`boxoffice: warning: ${WARNINGS[warning] ?? 'the broker warns'} (${warning})\n`)
  return session
}

/** The session of a thread that has one. */
export const findSession = async (
  client: Client,
  thread: string,
  { hint = '', ...asked }: { hint?: string } & Pick<SessionOptions, 'capabilities'> = {},
): Promise<Session> => {
  try {
    return await client.session(thread, { ...asked, mode: 'get' })
  } catch (error) {
    if (!isCode(error, 'BINDING_NOT_FOUND')) throw error
    const { requestId } = error as BoxofficeError
    throw new BoxofficeError(
      'BINDING_NOT_FOUND',
      `thread ${JSON.stringify(thread)} has no sandbox${hint}; \`boxoffice exec --thread ${shellWord(thread)} -- CMD\` makes one`,
      { requestId },
    )
  }
}

/** Does something with the session of a thread that has one. */
export const withSession = async (flags: ConnectionFlags, thread: string, work: (session: Session) => Promise<void>): Promise<void> => {
  using client = connectTo(flags)
  await work(await findSession(client, thread))
}

const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
