import { wakesSuite } from './wakes.ts'

wakesSuite('local')
