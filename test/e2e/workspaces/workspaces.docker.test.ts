import { workspacesSuite } from './workspaces.ts'

workspacesSuite('docker')
