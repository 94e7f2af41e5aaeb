// `npm run docs` writes docs/clients/compatibility.md from test/clients/matrix.
import { writeFileSync } from 'node:fs'
import { readMatrices } from './matrix.ts'
import { compatibilityPage, PAGE } from './page.ts'

writeFileSync(PAGE, compatibilityPage(await readMatrices()))
process.stdout.write('docs/clients/compatibility.md\n')
