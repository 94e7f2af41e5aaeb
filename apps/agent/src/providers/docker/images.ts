import { BoxofficeError } from '@boxoffice/protocol'
import type Docker from 'dockerode'
import type { Logger } from 'pino'
import { reasonOf } from './engine-error.ts'

const LOG_EVERY_MS = 2000

/** Pulls images that the engine lacks; callers that want the same one share a pull. */
export const imagePuller = (docker: Docker, log: Logger): ((image: string) => Promise<void>) => {
  const pulling = new Map<string, Promise<void>>()
  return (image) => {
    const underWay = pulling.get(image)
    if (underWay !== undefined) return underWay
    const pull = pullImage(docker, image, log).finally(() => pulling.delete(image))
    pulling.set(image, pull)
    return pull
  }
}

const pullImage = async (docker: Docker, image: string, log: Logger): Promise<void> => {
  log.info({ image }, 'pulling an image')
  try {
    const stream = await docker.pull(image)
    let loggedAt = performance.now()
    await new Promise<void>((resolve, reject) => {
      docker.modem.followProgress(
        stream,
        (error) => (error === null || error === undefined ? resolve() : reject(error)),
        ({ status, progress }: { status?: string; progress?: string }) => {
          if (performance.now() - loggedAt < LOG_EVERY_MS) return
          loggedAt = performance.now()
          log.info({ image, status, progress }, 'pulling an image')
        },
      )
    })
    log.info({ image }, 'image pulled')
  } catch (cause) {
    log.warn({ err: cause, image }, 'an image could not be pulled')
    throw new BoxofficeError(
      'BACKEND_UNAVAILABLE',
      `image "${image}" is not on this host and cannot be pulled (${reasonOf(cause)}); pull or build it here (deploy/images/sandbox/Dockerfile makes boxoffice/sandbox), or set another image`,
      { cause },
    )
  }
}
