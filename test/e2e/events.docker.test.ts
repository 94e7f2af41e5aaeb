import { eventsSuite } from './suites/events.ts'

eventsSuite('docker')
