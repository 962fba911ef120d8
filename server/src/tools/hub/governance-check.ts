import type { Service } from '../../kernel/foundation/service.ts'
import { type Failure, failure } from '../../kernel/lib/errors.ts'
import { FreshCache } from '../../kernel/stores/fresh-cache.ts'
import { topics } from '../../kernel/stores/topics.ts'
import { findInterceptor } from '../governance/governance-provider.ts'
import { askInterceptor, type Question } from '../governance/interceptor.ts'

/** Asks the organization's governance provider, if it has one, about a call or its result. Throws if it refuses. */
export type Governor = (question: Question) => Promise<'none' | 'allowed'>

const cachedOrganizations = 10_000

export function createGovernor(service: Service): Governor {
  const { changes, clock } = service
  type Known = { organizationId: string; interceptor: Awaited<ReturnType<typeof findInterceptor>> }
  const known = new FreshCache<Known>({
    changes,
    clock,
    limit: cachedOrganizations,
    topicsOf: ({ organizationId }) => [topics.governance(organizationId)],
  })

  return async (question) => {
    const organizationId = question.context.organization_id
    const found =
      known.get(organizationId) ??
      (await known.load(organizationId, async () => ({
        organizationId,
        interceptor: await findInterceptor(service, organizationId),
      })))
    const interceptor = found?.interceptor
    if (!interceptor) return 'none'
    if ('gap' in interceptor) throw refused(question, interceptor.gap)
    const { status, message, violations } = await askInterceptor(service, interceptor, question)
    if (status === 'failure')
      throw refused(question, [message, ...violations.map(({ details }) => details)].join(' · '))
    return 'allowed'
  }
}

function refused({ phase }: Question, reason: string): Failure {
  const what =
    phase === 'request'
      ? 'The organization’s governance provider blocked the call'
      : 'The tool has run, but the organization’s governance provider blocked its result'
  return failure(403, 'CALL_REFUSED', `${what}: ${reason}`)
}
