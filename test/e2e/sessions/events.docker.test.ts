import { eventsSuite } from './events.ts'

eventsSuite('docker')
