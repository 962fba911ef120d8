import { reauthLeadMs } from '@inlay/protocol/values'

/**
 * Whether a token expires so soon that it wouldn't extend the session. Only the server verifies tokens, so an
 * unreadable one counts as fresh here.
 */
export function hasAlmostExpired(idToken: string, now = Date.now()): boolean {
  try {
    const [, claims = ''] = idToken.split('.')
    const { exp } = JSON.parse(atob(claims.replaceAll('-', '+').replaceAll('_', '/')))
    return typeof exp === 'number' && exp * 1000 - now < 2 * reauthLeadMs
  } catch {
    return false
  }
}
