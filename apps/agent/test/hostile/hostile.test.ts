import { describe, expect, test } from 'vitest'
import { openLocal } from '../mounts/support.ts'
import { PROGRAMS } from './programs.ts'
import { hostileSuite, Scene } from './suite.ts'

describe('local, bubblewrap', () => hostileSuite(openLocal('bubblewrap')))

test('there are at least twenty, and where nothing is isolated they find what they look for', { timeout: 180_000 }, async () => {
  expect(PROGRAMS.length).toBeGreaterThanOrEqual(20)
  const scene = await Scene.make(openLocal('none'))
  try {
    const [first] = PROGRAMS
    if (first === undefined) throw new Error('no programs')
    expect((await scene.attack({ script: 'cat "$HOST_CANARY"' })).told).toContain(scene.hostCanary)
    expect(
      (await scene.attack({ script: 'exec 3<>/dev/tcp/127.0.0.1/$HOST_PORT; printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3; cat <&3' })).told,
    ).toContain(scene.hostCanary)
  } finally {
    await scene.close()
  }
})
