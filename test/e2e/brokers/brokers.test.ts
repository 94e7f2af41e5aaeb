import { brokersSuite } from './brokers.ts'

brokersSuite('postgres')
