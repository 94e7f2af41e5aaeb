import { relaySuite } from './relay.ts'

relaySuite('docker')
