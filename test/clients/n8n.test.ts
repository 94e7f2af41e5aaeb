import { n8nSuite } from './suites/n8n.ts'

n8nSuite('local', { whole: true })
