import { workspacesSuite } from './workspaces.ts'

workspacesSuite('local')
