import { e2bPythonSuite } from './suites/e2b-python.ts'
import { stackOf } from './support/stack-of.ts'

e2bPythonSuite(stackOf({ provider: 'local' }))
