import { createHmac } from 'node:crypto'
import type { Service } from '../../kernel/foundation/service.ts'
import { failure } from '../../kernel/lib/errors.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'

/** A message of an anonymous visitor that would start a run. */
export interface AnonymousVisit {
  organizationId: string
  /** The publishable key of the page. */
  keyId: string
  /** The client's address. */
  address: string
  /** Fingerprint of the visitor's secret. */
  visitor: string
}

/** Runs per minute. */
interface AnonymousRates {
  runs_per_address: number
  runs_per_visitor: number
  runs_per_key: number
}

/** An address may be shared by an office, and a key is on all pages of a site. */
const defaultRates: AnonymousRates = { runs_per_address: 20, runs_per_visitor: 6, runs_per_key: 120 }

/** Limits how many runs anonymous visitors start, because anyone can use a publishable key. */
export interface AnonymousLimits {
  /** Counts a run, or throws a Failure with status 429 that says when to try again. */
  admit(visit: AnonymousVisit, rates?: Partial<AnonymousRates>): Promise<void>
  /** UUIDs under which the budgets count the address and the visitor. They don't reveal either. */
  subjectsOf(visit: Omit<AnonymousVisit, 'keyId'>): { address: string; visitor: string }
}

const windowSeconds = 60

export function createAnonymousLimits({ kv, secrets }: Pick<Service, 'kv' | 'secrets'>): AnonymousLimits {
  const subjectKey = secrets.derive('anonymous visitors')[0]?.key as Buffer
  const subject = (...parts: string[]) =>
    createHmac('sha256', subjectKey).update(JSON.stringify(parts)).digest('hex').slice(0, 32)
  const isWithin = async (rate: number, kind: string, ...subject: string[]) =>
    (await kv.count(`anonymous-runs:${kind}:${subject.join(':')}`, windowSeconds)) <= rate

  return {
    subjectsOf: ({ organizationId, address, visitor }) => ({
      address: subject('address', organizationId, address),
      visitor: subject('visitor', organizationId, visitor),
    }),
    async admit({ organizationId, keyId, address, visitor }, given) {
      const rates = { ...defaultRates, ...given }
      // The address comes first and the key last, so that one client can't use up the key's runs for all others.
      if (!(await isWithin(rates.runs_per_address, 'address', organizationId, fingerprint(address)))) {
        throw tooMany('Too many messages are coming from your network.')
      }
      if (!(await isWithin(rates.runs_per_visitor, 'visitor', organizationId, fingerprint(visitor)))) {
        throw tooMany("You're sending messages too quickly.")
      }
      if (!(await isWithin(rates.runs_per_key, 'key', organizationId, keyId))) {
        throw tooMany('Too many visitors are using the assistant right now.')
      }
    },
  }
}

const tooMany = (reason: string) =>
  failure(429, 'TOO_MANY_REQUESTS', `${reason} Try again in a minute.`, {
    data: { retry_after_seconds: windowSeconds },
    headers: { 'retry-after': String(windowSeconds) },
  })
