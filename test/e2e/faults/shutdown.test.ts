import { shutdownSuite } from './shutdown.ts'

shutdownSuite('local')
