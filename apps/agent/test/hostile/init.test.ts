import { describe } from 'vitest'
import { openLocal } from '../mounts/support.ts'
import { initSuite } from './init-suite.ts'

describe('local, bubblewrap', () => initSuite(openLocal('bubblewrap')))
