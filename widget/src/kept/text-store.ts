/** Texts that survive a reload, if the browser allows it. Never throws. */
export interface TextStore {
  /** Whether the browser allows it. */
  readonly isLasting: boolean
  read(key: string): string | undefined
  write(key: string, text: string): void
  remove(key: string): void
  keys(): string[]
}

/** The part of `Storage` that is used. */
interface WebStorage {
  readonly length: number
  key(index: number): string | null
  getItem(key: string): string | null
  setItem(key: string, text: string): void
  removeItem(key: string): void
}

/**
 * A store in `sessionStorage` or `localStorage`. A browser can refuse both in a frame of another site, and a full
 * storage refuses texts; what it refuses is kept in memory. The prefix separates the agents of a page.
 */
export function openStore(find: () => WebStorage, prefix: string): TextStore {
  const memory = new Map<string, string>()
  const attempt = <Result>(use: (storage: WebStorage) => Result): Result | undefined => {
    try {
      return use(find())
    } catch {
      return undefined
    }
  }
  const storedKeys = () =>
    attempt((storage) => Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? '')) ?? []
  return {
    get isLasting() {
      return attempt((storage) => storage.length) !== undefined
    },
    read: (key) => memory.get(key) ?? attempt((storage) => storage.getItem(prefix + key)) ?? undefined,
    write(key, text) {
      const isStored = attempt((storage) => {
        storage.setItem(prefix + key, text)
        return true
      })
      if (isStored) memory.delete(key)
      else memory.set(key, text)
    },
    remove(key) {
      memory.delete(key)
      attempt((storage) => storage.removeItem(prefix + key))
    },
    keys() {
      const stored = storedKeys().flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : []))
      return [...new Set([...stored, ...memory.keys()])]
    },
  }
}
