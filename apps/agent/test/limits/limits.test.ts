import { describe } from 'vitest'
import { openLocal } from '../mounts/support.ts'
import { limitsSuite } from './suite.ts'

describe('local, bubblewrap', () => limitsSuite(openLocal('bubblewrap')))
