import { join } from 'node:path'
import { ROOT } from '../../e2e/support/program.ts'
import type { ClientMatrix, Result } from './matrix.ts'
import { versionOf } from './versions.ts'

export const PAGE: string = join(ROOT, 'docs/clients/compatibility.md')

const RESULTS: readonly Result[] = ['passed', '501', 'failed']

/** `docs/clients/compatibility.md`: nothing in it changes while the matrices and the versions stay. */
export const compatibilityPage = (matrices: readonly ClientMatrix[]): string =>
  [
    '# Compatibility',
    '',
    'Which calls of which published client, and of our own for Python, work against a Boxoffice. Written by `npm run docs` from',
    '`test/clients/matrix`; each line names the test that shows it, and that test drives a running Boxoffice with the package.',
    '',
    '- **passed**: does what the documentation of the client says.',
    '- **501**: is refused with an error that names what is missing.',
    '- **failed**: neither; the note says why.',
    '',
    `| client | package | ${RESULTS.join(' | ')} |`,
    '| --- | --- | --- | --- | --- |',
    ...matrices.map((matrix) => `| [${matrix.client}](${matrix.page}) | ${packagesOf(matrix)} | ${countsOf(matrix)} |`),
    ...matrices.flatMap(sectionOf),
    '',
  ].join('\n')

const sectionOf = (matrix: ClientMatrix): string[] => [
  '',
  `## ${matrix.client}`,
  '',
  `${packagesOf(matrix)}; ${matrix.runs}.`,
  '',
  '| operation | result | shown by |',
  '| --- | --- | --- |',
  ...matrix.operations.map(
    ({ operation, result, test, note }) =>
      `| \`${cell(operation)}\` | ${result} | ${cell(test)}${note === undefined ? '' : `; ${cell(note)}`} |`,
  ),
]

const packagesOf = ({ packages }: ClientMatrix): string => packages.map((one) => `\`${one.name}\` ${versionOf(one)}`).join(', ')

const countsOf = ({ operations }: ClientMatrix): string =>
  RESULTS.map((wanted) => operations.filter(({ result }) => result === wanted).length).join(' | ')

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
