import { mountsSuite } from './mounts.ts'

mountsSuite('docker')
