import { wakesSuite } from './wakes.ts'

wakesSuite('docker')
