import { describe } from 'vitest'
import { openDocker } from '../../mounts/support.ts'
import { egressSuite } from './suite.ts'

describe('docker', () => egressSuite(openDocker))
