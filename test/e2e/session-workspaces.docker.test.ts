import { sessionWorkspacesSuite } from './suites/session-workspaces.ts'

sessionWorkspacesSuite('docker')
