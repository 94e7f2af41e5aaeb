import { sessionWorkspacesSuite } from './session-workspaces.ts'

sessionWorkspacesSuite('docker')
