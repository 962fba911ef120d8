import { newSecret } from './ids.ts'
import type { TextStore } from './text-store.ts'

/** An anonymous visitor's threads belong to it. */
export interface VisitorSecret {
  read(): string
  /** Chooses another one: the visitor's thread now belongs to a user. */
  renew(): void
}

const place = 'visitor-secret'

export function createVisitorSecret(store: TextStore): VisitorSecret {
  const renew = () => {
    const secret = newSecret()
    store.write(place, secret)
    return secret
  }
  return {
    read() {
      const known = store.read(place)
      return known !== undefined && known.length >= 32 && known.length <= 128 ? known : renew()
    },
    renew: () => void renew(),
  }
}
