import { neighboursSuite } from './neighbours.ts'

neighboursSuite('docker', ['direct'])
