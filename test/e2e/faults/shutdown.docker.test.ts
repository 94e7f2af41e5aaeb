import { shutdownSuite } from './shutdown.ts'

shutdownSuite('docker')
