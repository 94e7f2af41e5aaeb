import { describe } from 'vitest'
import { openDocker } from '../../mounts/support.ts'
import { toolsSuite } from './tools-suite.ts'

describe('docker', () => toolsSuite(openDocker))
