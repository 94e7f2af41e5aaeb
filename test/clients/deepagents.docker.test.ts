import { engineSuite } from './suites/deepagents-engine.ts'

engineSuite('docker')
