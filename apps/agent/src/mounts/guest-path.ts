import { BoxofficeError } from '@boxoffice/protocol'

/** What a sandbox is made of: nothing of a request is put there or below. */
const RESERVED = ['proc', 'sys', 'dev', '.boxoffice', 'etc', 'usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32']
/** Themselves something else; below them there is room. */
const TAKEN = new Set(['/', '/workspace', '/app', '/tmp', '/run', '/var', '/var/tmp', '/home'])

/** Where in the sandbox a mount is to be, in one spelling; below `/app` it means the workspace where that is an alias [1-21]. */
export const guestPath = (given: string, { field, appAlias }: { field: string; appAlias: boolean }): string => {
  const segments = given.split('/').filter((segment) => segment !== '' && segment !== '.')
  const refuse = (why: string): never => {
    throw new BoxofficeError('INVALID_REQUEST', `${field}: mount_path ${why}`, { details: { field } })
  }
  if (segments.includes('..')) return refuse('must not contain ".."; write where it leads')
  if (segments[0] === 'app' && appAlias) segments[0] = 'workspace'
  const path = `/${segments.join('/')}`
  if (TAKEN.has(path)) return refuse(`${path} is the sandbox's own; choose one below it, such as ${path === '/' ? '' : path}/data`)
  if (RESERVED.includes(segments[0] ?? '')) return refuse(`must not be below /${segments[0]}, which is the sandbox's own`)
  return path
}
