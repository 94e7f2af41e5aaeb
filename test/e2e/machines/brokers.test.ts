import { brokersSuite } from './brokers.ts'

brokersSuite('sqlite')
