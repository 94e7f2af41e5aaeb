import { BoxofficeError } from '@boxoffice/client'
import { inCliWords } from './cli-words.ts'

/** A failure as one line: what is wrong and what to do, with the code and the request to look for in the log. */
export const failureLine = (error: unknown): string => {
  if (!(error instanceof Error)) return `boxoffice: ${String(error)}`
  if (!(error instanceof BoxofficeError)) return `boxoffice: ${systemMessage(error)}`
  const request = error.requestId === undefined ? '' : `, request ${error.requestId}`
  return `boxoffice: ${inCliWords(error.message)} (${error.code}${request})`
}

const systemMessage = (error: Error & { code?: unknown; address?: unknown; port?: unknown; path?: unknown }): string => {
  switch (error.code) {
    case 'EADDRINUSE':
      return `port ${String(error.port)} on ${String(error.address)} is in use; stop what listens there or choose another with --port or --agent-port`
    case 'EACCES':
    case 'EPERM':
      return `permission denied: ${String(error.path ?? error.address ?? error.message)}`
    case 'ENOENT':
      return `no such file: ${String(error.path ?? error.message)}`
    default:
      return error.message.split('\n')[0] ?? error.name
  }
}
