import { describe } from 'vitest'
import { openDocker } from '../mounts/support.ts'
import { linkFloodSuite } from './link-flood.ts'

describe('docker', () => linkFloodSuite(openDocker))
