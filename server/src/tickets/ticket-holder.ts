/** What a ticket stands for. It can be taken once. */
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
