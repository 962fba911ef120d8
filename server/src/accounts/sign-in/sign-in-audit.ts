import type { Service } from '../../kernel/foundation/service.ts'
import { recordHappening } from '../users/user-trail.ts'
import type { User } from '../users/users.ts'
import { pairOf } from './attempts.ts'

export const recordSignIn = (
  service: Pick<Service, 'database'>,
  userId: string,
  data: {
    method: 'password' | 'password and code' | 'passkey' | 'provider' | 'organization provider' | 'demo'
    address: string
  },
): Promise<void> => recordHappening(service, userId, { action: 'user.signed_in', data })

const coalesceSeconds = 60
const mostPerAccount = 10

/**
 * Anyone can cause these events, so an account gets at most one per minute from each address, with the number of
 * failures so far, and ten per minute in total. The response doesn't wait for it: its timing would reveal which
 * accounts exist.
 */
export function recordFailedSignIn(
  service: Service,
  { id, email }: Pick<User, 'id' | 'email'>,
  { address, failures }: { address: string; failures: number },
): void {
  const record = async () => {
    const { kv } = service
    const pair = pairOf(email, address)
    if (!(await kv.setIfAbsent(`sign-in-failure-recorded:${pair}`, true, coalesceSeconds))) return
    if ((await kv.count(`sign-in-failures-recorded:${id}`, coalesceSeconds)) > mostPerAccount) return
    const data = { address, failures }
    await recordHappening(service, id, { action: 'user.sign_in_failed', actor: 'sign-in', data })
  }
  record().catch((error) => service.log.error({ err: error }, 'could not record a failed sign-in'))
}
