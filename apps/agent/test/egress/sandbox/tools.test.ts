import { describe } from 'vitest'
import { openLocal } from '../../mounts/support.ts'
import { toolsSuite } from './tools-suite.ts'

describe('local', () => toolsSuite(openLocal('bubblewrap')))
