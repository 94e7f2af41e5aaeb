import { workspacesSuite } from './suites/workspaces.ts'

workspacesSuite('docker')
