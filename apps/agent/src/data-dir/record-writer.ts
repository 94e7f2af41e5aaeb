import { SerialQueue } from '@boxoffice/kit/serial-queue'
import { type SandboxFile, saveSandboxFile, writeNewSandboxFile } from './record-file.ts'

/** The record of one sandbox, and its writes to the disk, one after another. */
export class RecordWriter {
  readonly #directory: string
  #file: SandboxFile
  readonly #writes = new SerialQueue()

  constructor(directory: string, file: SandboxFile) {
    this.#directory = directory
    this.#file = file
  }

  /** As it is now; the disk may be one write behind. */
  get file(): SandboxFile {
    return this.#file
  }

  /** Resolves when the writes of all changes have ended, well or not. */
  get written(): Promise<void> {
    return this.#writes.idle()
  }

  /** `isNew`: the sandbox is not finished yet, so that a record which a crash tears may be thrown away. */
  save(change: Partial<SandboxFile>, isNew: boolean): Promise<void> {
    this.#file = { ...this.#file, ...change }
    const write = isNew ? writeNewSandboxFile : saveSandboxFile
    return this.#writes.run(() => write(this.#directory, this.#file))
  }
}
