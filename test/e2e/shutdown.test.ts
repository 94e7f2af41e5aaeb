import { shutdownSuite } from './suites/shutdown.ts'

shutdownSuite('local')
