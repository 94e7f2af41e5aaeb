import { describe } from 'vitest'
import { mountsSuite } from './suite.ts'
import { openDocker } from './support.ts'

describe('docker', () => mountsSuite(openDocker))
