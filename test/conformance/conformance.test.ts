import { conformanceSuite } from './vitest-suite.ts'

conformanceSuite('local')
