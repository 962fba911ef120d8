import { createCipheriv, createDecipheriv } from 'node:crypto'
import { longestTicket } from '@inlay/protocol'
import type { Service } from '../foundation/service.ts'
import { randomText } from '../lib/ids.ts'

/** What a ticket stands for. */
export interface TicketHolder {
  organization_id: string
  publishable_key_id: string
  origin: string | undefined
  site_id: string | undefined
  /** Undefined for a widget whose user is not signed in. */
  end_user: TicketEndUser | undefined
}

export interface TicketEndUser {
  id: string
  verified_email: string | undefined
  identity_expires_at: number
  /** Fingerprint of the provider settings that the ID token was verified with; see standing.ts. */
  provider: string
}

/** Tickets are sealed values: issuing one stores nothing, and any node can redeem it, also after a restart. */
export interface Tickets {
  issue(holder: TicketHolder): { ticket: string; expiresAt: number }
  /** Whom the ticket is for; of several who bring it one is told. Throws when it can't be recorded that it was used. */
  redeem(ticket: string): Promise<TicketHolder | undefined>
}

export const ticketSeconds = 60
/** A use is remembered for longer than the ticket lives, because the clocks of nodes differ. */
const rememberSeconds = 2 * ticketSeconds

const hourMs = 60 * 60 * 1000
const header = { keyId: 4, hour: 4, nonce: 12 }
/** In base64url. */
const nonceCharacters = (header.nonce * 4) / 3
const headerBytes = header.keyId + header.hour + header.nonce
const tagBytes = 16

/** Key id, hour, nonce, ciphertext and tag, in base64url. The head is authenticated with the rest. */
export function createTickets({ secrets, kv, clock }: Pick<Service, 'secrets' | 'kv' | 'clock'>): Tickets {
  // AES-GCM with random nonces is safe for 2^32 messages under one key (NIST SP 800-38D), so each hour has its own.
  const keysByHour = new Map<number, { id: Buffer; key: Buffer }[]>()
  const keysOf = (hour: number) =>
    keysByHour.getOrInsertComputed(hour, () => {
      for (const known of keysByHour.keys()) if (Math.abs(known - hour) > 1) keysByHour.delete(known)
      return secrets.derive(`ticket ${hour}`).map(({ id, key }) => ({ id: Buffer.from(id, 'hex'), key }))
    })

  function open(bytes: Buffer): { nonce: string; holder: TicketHolder; expires_at: number } | undefined {
    if (bytes.length < headerBytes + tagBytes) return undefined
    const hour = bytes.readUInt32BE(header.keyId)
    if (Math.abs(hour - Math.floor(clock() / hourMs)) > 1) return undefined
    const key = keysOf(hour).find(({ id }) => id.equals(bytes.subarray(0, header.keyId)))?.key
    if (!key) return undefined
    const nonce = bytes.subarray(headerBytes - header.nonce, headerBytes)
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
      .setAAD(bytes.subarray(0, headerBytes))
      .setAuthTag(bytes.subarray(-tagBytes))
    try {
      const text = decipher.update(bytes.subarray(headerBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
      return { nonce: nonce.toString('base64url'), ...JSON.parse(text) }
    } catch {
      // Somebody made it up, or changed it.
      return undefined
    }
  }

  return {
    issue(holder) {
      const now = clock()
      const expiresAt = now + ticketSeconds * 1000
      const hour = Math.floor(now / hourMs)
      const [{ id, key }] = keysOf(hour) as [{ id: Buffer; key: Buffer }]
      const head = Buffer.allocUnsafe(headerBytes)
      id.copy(head)
      head.writeUInt32BE(hour, header.keyId)
      const nonce = Buffer.from(randomText(nonceCharacters), 'base64url')
      nonce.copy(head, headerBytes - header.nonce)
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(head)
      const sealed = cipher.update(JSON.stringify({ holder, expires_at: expiresAt }), 'utf8')
      cipher.final()
      return { ticket: Buffer.concat([head, sealed, cipher.getAuthTag()]).toString('base64url'), expiresAt }
    },
    async redeem(ticket) {
      if (ticket.length > longestTicket) return undefined
      const opened = open(Buffer.from(ticket, 'base64url'))
      if (!opened || opened.expires_at <= clock()) return undefined
      // The nonce is what a ticket is known by: several texts decode to the same bytes.
      return (await kv.setIfAbsent(`ticket:${opened.nonce}`, true, rememberSeconds)) ? opened.holder : undefined
    },
  }
}
