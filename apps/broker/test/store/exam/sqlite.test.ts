import { join } from 'node:path'
import { openDatabase } from '../../../src/store/sqlite/engine/database.ts'
import { openSqliteStore } from '../../../src/store/sqlite/sqlite-store.ts'
import { removeDir, tempDir } from '../../support/test-broker.ts'
import { storeExam } from './exam.ts'

storeExam('SQLite', async () => {
  const parts = new AsyncDisposableStack()
  const directory = tempDir()
  parts.defer(() => removeDir(directory))
  const path = join(directory, 'broker.db')
  return {
    open: async () => parts.use(await openSqliteStore(path, { pollMs: 20 })),
    sql: async (statement) => {
      const db = await openDatabase(path)
      try {
        db.exec(statement)
      } finally {
        db.close()
      }
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
})
