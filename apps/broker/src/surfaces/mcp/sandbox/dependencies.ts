/** How the dependencies of a project at `directory` are installed before its server starts; null: it names none [2-87]. */
export function installCommand(files: readonly string[], directory: string, name: string): string | null {
  const has = (file: string): boolean => files.includes(file)
  const source = quote(directory)
  if (has('pyproject.toml') || has('setup.py')) {
    // A build writes beside its sources, which may be mounted read-only [2-88].
    const copy = quote(`/tmp/mcp-${name}`)
    return `rm -rf ${copy} && cp -R ${source} ${copy} && cd ${copy} && ${PIP} .`
  }
  if (has('requirements.txt')) return `cd ${source} && ${PIP} -r requirements.txt`
  return null
}

/** The sandbox is the environment: that a distribution manages its Python there is nothing to protect. */
const PIP = 'PIP_BREAK_SYSTEM_PACKAGES=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 pip install'

const quote = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
