import { reauthLeadMs } from '@inlay/protocol/values'

/**
 * Whether a token is about to run out, so that a session would not last longer with it than without. Only the server
 * verifies tokens; one that cannot be read here is left to it.
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
