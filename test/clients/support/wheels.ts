import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../e2e/support/program.ts'
import { PYTHON, runToEnd } from './pytest.ts'

export const PYTHON_PACKAGES = ['packages/client-python', 'packages/langchain-boxoffice'] as const

/** A fresh virtual environment with the wheels of both packages. */
export type Wheels = { python: string; directory: string; names: string[] } & AsyncDisposable

/**
 * Builds the wheels and installs them. Nothing is fetched: the build and the packages that ours need come from `.tools/python`, whose
 * folder the new environment reads as well.
 */
export const installWheels = async (): Promise<Wheels> => {
  const directory = await mkdtemp(join(tmpdir(), 'bxo-wheels-'))
  const wheels = join(directory, 'wheels')
  const venv = join(directory, 'venv')
  const python = join(venv, 'bin/python')
  const pip = ['-m', 'pip', '--disable-pip-version-check']
  await mkdir(wheels)
  const sources = PYTHON_PACKAGES.map((folder) => join(ROOT, folder))
  await succeed([...pip, 'wheel', '--no-deps', '--no-index', '--no-build-isolation', '--wheel-dir', wheels, ...sources])
  const names = (await readdir(wheels)).toSorted()
  await succeed(['-m', 'venv', '--without-pip', venv])
  const files = names.map((name) => join(wheels, name))
  await succeed([...pip, '--python', python, 'install', '--no-deps', '--no-index', ...files])
  const folders = await succeed(['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'])
  const [site = ''] = (await runToEnd(python, ['-c', 'import sysconfig; print(sysconfig.get_path("purelib"))'])).output.split('\n')
  await writeFile(join(site, 'others.pth'), folders)
  return { python, directory, names, [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) }
}

const succeed = async (args: readonly string[]): Promise<string> => {
  const { code, output } = await runToEnd(PYTHON, args)
  if (code !== 0) throw new Error(`python ${args.join(' ')} ended with ${code}:\n${output}`)
  return output
}
