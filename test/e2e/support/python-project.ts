import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Files of a wheel with one module, as text: nothing of it is built by anything but Python itself. */
const BACKEND = `import zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    open("built-beside-its-sources", "w").close()
    name = "greeting-1.0-py3-none-any.whl"
    meta = "greeting-1.0.dist-info"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("greeting.py", "TEXT = 'hello from the wheel'\\n")
        wheel.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\\nName: greeting\\nVersion: 1.0\\n")
        wheel.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{meta}/RECORD", "")
    return name
`

const SERVER = fileURLToPath(new URL('../example/mcp/server.py', import.meta.url))

/** The example server with a dependency that a build of its own gives: no network, no registry. Its build writes beside its sources. */
export const writeProject = (directory: string): void => {
  mkdirSync(directory, { recursive: true })
  copyFileSync(SERVER, `${directory}/server.py`)
  writeFileSync(`${directory}/backend.py`, BACKEND)
  writeFileSync(
    `${directory}/pyproject.toml`,
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "greeting"\nversion = "1.0"\n',
  )
}

/** The same, but its requirements name a wheel beside them; `wheel` is made by whoever calls. */
export const writeRequirements = (directory: string, requirements: string): void => {
  mkdirSync(directory, { recursive: true })
  copyFileSync(SERVER, `${directory}/server.py`)
  writeFileSync(`${directory}/requirements.txt`, requirements)
}
