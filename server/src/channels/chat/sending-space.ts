import { hasFairShare } from '../../kernel/lib/shares/fair-share.ts'

const mebibyte = 1024 * 1024
/** Characters that wait until clients have read what was sent before. One long run can have ten million. */
const mostWaiting = { visitors: 32 * mebibyte, organization: 64 * mebibyte, node: 256 * mebibyte }

interface Recipient {
  organizationId: string
  isVisitor: boolean
}

/**
 * The memory for long runs that are being sent. Each organization, and its visitors together, have a share of it, which
 * is smaller while other organizations need theirs.
 */
export class SendingSpace {
  readonly #taken = new Map<string, number>()

  /** Returns a function that frees the room. Undefined if there isn't enough. */
  take({ organizationId, isVisitor }: Recipient, length: number): (() => void) | undefined {
    const organization = `organization ${organizationId}`
    const limits = new Map([[organization, mostWaiting.organization]])
    if (isVisitor) limits.set(`visitors ${organizationId}`, mostWaiting.visitors)
    for (const [key, most] of limits) if (this.#of(key) + length > most) return undefined
    const shared = { total: mostWaiting.node, taken: this.#of('node'), own: this.#of(organization) }
    if (!hasFairShare(shared, length)) return undefined
    const keys = [...limits.keys(), 'node']
    for (const key of keys) this.#taken.set(key, this.#of(key) + length)
    return () => {
      for (const key of keys) {
        const rest = this.#of(key) - length
        if (rest > 0) this.#taken.set(key, rest)
        else this.#taken.delete(key)
      }
    }
  }

  #of = (key: string): number => this.#taken.get(key) ?? 0
}
