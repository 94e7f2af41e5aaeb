import { hash, randomUUID } from 'node:crypto'
import { closeSync, existsSync, fdatasyncSync, openSync, readFileSync, renameSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { z } from 'zod'
import type { HeldChange } from '../../store.ts'

const Stored: z.ZodType<HeldChange> = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['key', 'enroll_token']), id: z.string(), at: z.number() }),
  z.object({ kind: z.literal('release'), id: z.string(), keepWorkspace: z.boolean() }),
])

/** Ids of ours have 40 characters, so that each change fits. */
const SLOT_BYTES = 256
const SLOTS = 1024

/**
 * Revocations and releases that the database has no page for, in a file beside it whose blocks were written before they were needed.
 * A change has the slot that its id hashes to, or one after it, so that brokers that share the file rarely meet; one that is lost so
 * holds in memory all the same. Best effort: a failure of the file is no failure of the change.
 */
export class HeldLog {
  readonly #path: string
  /** As the file had them at the start, and what this process has written since. */
  readonly #slots: Map<number, HeldChange>
  /** What this process holds in memory only. */
  readonly #held = new Set<string>()

  /** `path`: of the database. */
  constructor(path: string) {
    this.#path = `${path}-held`
    if (!existsSync(this.#path)) this.#allocate()
    this.#slots = this.#read()
  }

  /** What is in the file, of this run and of earlier ones. */
  entries(): HeldChange[] {
    return [...this.#slots.values()]
  }

  /** Whether this process holds the change in memory only. */
  has(change: HeldChange): boolean {
    return this.#held.has(keyOf(change))
  }

  put(change: HeldChange): void {
    const key = keyOf(change)
    this.#held.add(key)
    const first = Number.parseInt(hash('sha256', key).slice(0, 8), 16) % SLOTS
    for (let i = 0; i < SLOTS; i++) {
      const slot = (first + i) % SLOTS
      const there = this.#slots.get(slot)
      if (there !== undefined && keyOf(there) !== key) continue
      this.#slots.set(slot, change)
      return this.#write(slot, JSON.stringify(change))
    }
  }

  /** The change is in the database. */
  remove(change: HeldChange): void {
    const key = keyOf(change)
    this.#held.delete(key)
    for (const [slot, there] of this.#slots) {
      if (keyOf(there) !== key) continue
      this.#slots.delete(slot)
      this.#write(slot, '')
    }
  }

  #allocate(): void {
    const part = `${this.#path}.${randomUUID()}`
    try {
      writeFileSync(part, Buffer.alloc(SLOTS * SLOT_BYTES), { mode: 0o600, flush: true })
      renameSync(part, this.#path)
    } catch {
      // No space for it now; the next start tries again.
      rmSync(part, { force: true })
    }
  }

  #read(): Map<number, HeldChange> {
    const found = new Map<number, HeldChange>()
    const bytes = existsSync(this.#path) ? readFileSync(this.#path) : Buffer.alloc(0)
    for (let slot = 0; slot < SLOTS && (slot + 1) * SLOT_BYTES <= bytes.length; slot++) {
      const text = bytes.toString('utf8', slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES).replace(/\0+$/, '')
      const change = text === '' ? undefined : Stored.safeParse(parsed(text)).data
      if (change !== undefined) found.set(slot, change)
    }
    return found
  }

  #write(slot: number, text: string): void {
    const record = Buffer.alloc(SLOT_BYTES)
    if (Buffer.byteLength(text) > SLOT_BYTES || !existsSync(this.#path)) return
    record.write(text)
    try {
      const file = openSync(this.#path, 'r+')
      try {
        writeSync(file, record, 0, SLOT_BYTES, slot * SLOT_BYTES)
        fdatasyncSync(file)
      } finally {
        closeSync(file)
      }
    } catch {
      // A file system that needs space to overwrite: the change holds in memory.
    }
  }
}

const keyOf = ({ kind, id }: HeldChange): string => `${kind} ${id}`

/** Torn by a power cut: as if it were not there. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
