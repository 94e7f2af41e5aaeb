import { eventsSuite } from './events.ts'

eventsSuite('local')
