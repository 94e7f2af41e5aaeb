import { describe } from 'vitest'
import { openLocal } from '../../mounts/support.ts'
import { egressSuite } from './suite.ts'

describe('local', () => egressSuite(openLocal('bubblewrap')))
