import { neighboursSuite } from './suites/neighbours.ts'

neighboursSuite('docker', ['direct'])
