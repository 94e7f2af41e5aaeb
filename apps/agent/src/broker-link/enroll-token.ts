import { readFile } from 'node:fs/promises'
import { BoxofficeError } from '@boxoffice/protocol'

export type EnrollTokenSettings = { enrollToken?: string | undefined; kubernetes: { enrollTokenFile?: string | undefined } }

/** Gives what the agent registers with: the configured token, or what its file has now. The kubelet replaces that before it expires. */
export const enrollTokenFrom = ({
  enrollToken = '',
  kubernetes: { enrollTokenFile: path },
}: EnrollTokenSettings): (() => Promise<string>) => {
  if (path === undefined) return async () => enrollToken
  return async () => {
    const text = await readFile(path, 'utf8').catch((cause: unknown) => {
      throw new BoxofficeError('BACKEND_UNAVAILABLE', `the token of the service account, ${path}, cannot be read`, { cause })
    })
    return text.trim()
  }
}
