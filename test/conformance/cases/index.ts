import type { Case } from '../case.ts'
import { execCases } from './exec.ts'
import { fileCases } from './files.ts'
import { fullCases } from './full.ts'
import { negotiateCases } from './negotiate.ts'
import { operationCases } from './operations.ts'
import { sessionCases } from './session.ts'
import { socketCases } from './sockets.ts'
import { tokenCases } from './tokens.ts'

export const allCases: readonly Case[] = [
  ...negotiateCases,
  ...fullCases,
  ...sessionCases,
  ...tokenCases,
  ...execCases,
  ...socketCases,
  ...fileCases,
  ...operationCases,
]
