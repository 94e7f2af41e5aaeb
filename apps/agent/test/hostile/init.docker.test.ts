import { describe } from 'vitest'
import { openDocker } from '../mounts/support.ts'
import { initSuite } from './init-suite.ts'

describe('docker', () => initSuite(openDocker))
