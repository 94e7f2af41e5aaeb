import { mountsSuite } from './suites/mounts.ts'

mountsSuite('local')
