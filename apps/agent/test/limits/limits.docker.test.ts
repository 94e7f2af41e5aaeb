import { describe } from 'vitest'
import { openDocker } from '../mounts/support.ts'
import { limitsSuite } from './suite.ts'

describe('docker', () => limitsSuite(openDocker))
