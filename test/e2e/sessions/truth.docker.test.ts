import { truthSuite } from './truth.ts'

truthSuite('docker')
