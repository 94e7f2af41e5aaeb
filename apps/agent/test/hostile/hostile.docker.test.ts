import { describe } from 'vitest'
import { openDocker } from '../mounts/support.ts'
import { hostileSuite } from './suite.ts'

describe('docker', () => hostileSuite(openDocker))
