import type Docker from 'dockerode'

/** What the `pooled` profile asks for. */
export const POOL_SIZE = 20

/** Polls until `holds`; between measurements only, never inside one. */
export const until = async (holds: () => Promise<boolean>): Promise<void> => {
  for (let i = 0; i < 600; i++) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  throw new Error('the stack did not settle within two minutes')
}

/** Waits for a pool that is full: while it fills, twenty containers take the time of whatever is measured. */
export const poolFull = async (docker: Docker): Promise<void> => {
  await until(async () => {
    const managed = await docker.listContainers({ filters: { label: ['boxoffice.managed=true'] } })
    return managed.filter(({ Names }) => Names.some((name) => name.startsWith('/bxo-pool-'))).length >= POOL_SIZE
  })
  // The last ones still have to dial in; a pooled sandbox that is not linked yet is not handed out.
  await new Promise((resolve) => setTimeout(resolve, 1500))
}
