import { type Failure, failure } from '../errors.ts'
import { askInterceptor, type Question } from '../governance/interceptor.ts'
import { findInterceptor, governanceChanged } from '../governance/provider.ts'
import { BoundedMap } from '../lib/bounded-map.ts'
import type { Foundation } from '../service.ts'

/** Lets a call, or its result, pass where the organization's governance provider does; throws the refusal otherwise. */
export type Governor = (question: Question) => Promise<void>

/** A node that missed a message on the bus asks again after this long. */
const rememberMs = 30_000
const rememberedOrganizations = 10_000

export async function createGovernor(foundation: Foundation): Promise<Governor> {
  const { bus, clock } = foundation
  type Known = { interceptor: ReturnType<typeof findInterceptor>; checkedAt: number }
  const known = new BoundedMap<string, Known>(rememberedOrganizations)
  await bus.subscribe<{ organization_id: string }>(governanceChanged, (message) =>
    known.delete(message.organization_id),
  )

  async function interceptorOf(organizationId: string): ReturnType<typeof findInterceptor> {
    const remembered = known.get(organizationId)
    if (remembered && clock() - remembered.checkedAt < rememberMs) return remembered.interceptor
    const interceptor = findInterceptor(foundation, organizationId)
    known.set(organizationId, { interceptor, checkedAt: clock() })
    interceptor.catch(() => known.delete(organizationId))
    return interceptor
  }

  return async (question) => {
    const interceptor = await interceptorOf(question.context.organization_id)
    if (!interceptor) return
    if ('gap' in interceptor) throw refused(interceptor.gap)
    const { status, message, violations } = await askInterceptor(foundation, interceptor, question)
    if (status === 'failure') throw refused([message, ...violations.map(({ details }) => details)].join(' · '))
  }
}

const refused = (reason: string): Failure =>
  failure(403, 'CALL_REFUSED', `The organization’s governance provider did not let the call pass: ${reason}`)
