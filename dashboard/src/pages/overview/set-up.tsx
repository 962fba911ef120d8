import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check } from 'lucide-react'
import { api, read } from '../../session/api.ts'
import { keysQuery, sitesQuery } from '../../session/lists.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { buttonClass } from '../../ui/controls/button.tsx'
import { Section } from '../../ui/display/layout.tsx'
import { t } from './texts.ts'

const identityQuery = read(['identity-provider'], (signal) => api.GET('/identity-providers/config', { signal }))
const agentQuery = read(['agent'], (signal) => api.GET('/agent/config', { signal }))
const threadsQuery = read(['threads', 'analytics'], (signal) => api.GET('/threads/analytics', { signal }))
const skillsQuery = read(['skills'], (signal) => api.POST('/organization-skills/list', { body: {}, signal }))
const budgetsQuery = read(['budgets'], (signal) => api.GET('/budgets', { signal }))

interface Step {
  name: string
  text: string
  isDone: boolean
  action: string
  path: string
  search?: Record<string, string>
}

/** What is left until the agent works in the organization's own pages. Computed from the settings; hidden when done. */
export function SetUp() {
  const { isAdmin } = useOrganization()
  const orgPath = useOrgPath()
  const options = { enabled: isAdmin }
  const keys = useQuery({ ...keysQuery, ...options })
  const identity = useQuery({ ...identityQuery, ...options })
  const sites = useQuery({ ...sitesQuery, ...options })
  const agent = useQuery({ ...agentQuery, ...options })
  const threads = useQuery({ ...threadsQuery, ...options })
  const skills = useQuery({ ...skillsQuery, ...options })
  const budgets = useQuery({ ...budgetsQuery, ...options })
  if (!keys.data || !identity.data || !sites.data || !agent.data || !threads.data) return null
  if (!skills.data || !budgets.data) return null

  const site = sites.data.find(({ last_seen_at }) => last_seen_at)
  const limits = Object.values(budgets.data.organization)
  const steps: Step[] = [
    {
      name: t.key,
      text: t.keyText,
      isDone: keys.data.some(({ revoked_at }) => !revoked_at),
      action: t.keyAction,
      path: 'keys',
      search: { create: 'yes' },
    },
    {
      name: t.tryIt,
      text: t.tryItText,
      isDone: threads.data.total_threads > 0,
      action: t.tryItAction,
      path: 'try-it',
    },
    {
      name: t.model,
      text:
        agent.data.effective_model?.source === 'demo' ? t.modelText : (agent.data.effective_model?.name ?? t.modelText),
      isDone: agent.data.effective_model !== null && agent.data.effective_model?.source !== 'demo',
      action: t.modelAction,
      path: 'agent',
    },
    {
      name: t.identity,
      text: identity.data.idp_domain ?? identity.data.idp_issuer ?? t.identityText,
      isDone: identity.data.idp_type !== null,
      action: t.identityAction,
      path: 'identity-provider',
    },
    {
      name: t.skill,
      text: t.skillText,
      isDone: skills.data.some(({ id }) => !id.startsWith('builtin:')),
      action: t.skillAction,
      path: 'skills',
      search: { create: 'yes' },
    },
    {
      name: t.budget,
      text: t.budgetText,
      isDone: limits.some((limit) => limit !== null),
      action: t.budgetAction,
      path: 'budgets',
    },
    {
      name: t.embed,
      text: site ? t.embedDone(site.origin) : t.embedText,
      isDone: site !== undefined,
      action: t.embedAction,
      path: 'keys',
    },
  ]
  const done = steps.filter(({ isDone }) => isDone).length
  const next = steps.find(({ isDone }) => !isDone)
  if (!next) return null
  return (
    <Section title={t.setUp} actions={<span className="text-sm text-muted">{t.steps(done, steps.length)}</span>}>
      <ol className="grid gap-3">
        {steps.map((step) => (
          <li
            key={step.name}
            className="grid grid-cols-[20px_1fr] gap-2.5"
            aria-current={step === next ? 'step' : undefined}
          >
            <span
              className={`mt-px grid size-[18px] place-items-center rounded-full border-[1.5px] ${
                step.isDone
                  ? 'border-accent bg-accent text-on-accent'
                  : step === next
                    ? 'border-brass ring-3 ring-brass-soft'
                    : 'border-line-strong'
              }`}
            >
              {step.isDone && <Check size={12} strokeWidth={3} aria-hidden />}
            </span>
            <div className="min-w-0">
              <p className={step.isDone ? 'text-muted' : 'font-[550]'}>
                {step.isDone && <span className="sr-only">{t.stepDone} </span>}
                {step.name}
              </p>
              {(step.isDone || step === next) && <p className="text-sm wrap-anywhere text-muted">{step.text}</p>}
              {step === next && (
                <Link
                  to={orgPath(step.path)}
                  {...(step.search && { search: step.search as never })}
                  className={`${buttonClass()} mt-2`}
                >
                  {step.action}
                </Link>
              )}
            </div>
          </li>
        ))}
      </ol>
    </Section>
  )
}
