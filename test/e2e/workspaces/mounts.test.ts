import { mountsSuite } from './mounts.ts'

mountsSuite('local')
