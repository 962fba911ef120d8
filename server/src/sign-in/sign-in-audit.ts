import type { Service } from '../foundation/service.ts'
import { recordHappening } from '../users/person-trail.ts'
import type { User } from '../users/users.ts'
import { pairOf } from './attempts.ts'

export const recordSignIn = (
  service: Pick<Service, 'database'>,
  userId: string,
  data: { method: 'password' | 'provider' | 'demo'; address: string },
): Promise<void> => recordHappening(service, userId, { action: 'user.signed_in', data })

const coalesceSeconds = 60
const mostPerAccount = 10

/**
 * Strangers cause these, so an account gets at most one event per minute from each address, with the number of failures
 * until then, and ten in all. The response does not wait for it: its time would tell which accounts exist.
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
  record().catch((error) => service.log.error({ err: error }, 'a failed sign-in was not recorded'))
}
