import { n8nSuite } from './suites/n8n.ts'

n8nSuite('docker', { whole: false })
