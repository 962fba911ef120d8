import { hasGrant } from './accounts/access/records.ts'
import { checkingDomains, checkingPlans } from './accounts/organization-sign-in/domain-checks.ts'
import { createRuns } from './agent/loop/create-runs.ts'
import { createModels } from './agent/models/create-models.ts'
import type { Models } from './agent/models/models.ts'
import { createPrices } from './agent/models/prices.ts'
import type { Runs } from './agent/runs/runs.ts'
import { type AgentSettingsReader, createAgentSettings } from './agent/settings/agent-settings.ts'
import { createTelemetry } from './agent/telemetry/telemetry.ts'
import { erasingConversations } from './agent/threads/retention.ts'
import { createToolbox } from './agent/toolbox/create-toolbox.ts'
import { type AgUi, createAgUi } from './channels/ag-ui/endpoint.ts'
import { type AgentSessions, createAgentSessions } from './channels/ag-ui/sessions.ts'
import { createChat } from './channels/chat/chat.ts'
import { createRuntime, type Runtime } from './channels/sockets/endpoint.ts'
import { createErasures, type Erasures } from './console/personal-data/erasures.ts'
import { syncingCode } from './content/code-host/sync.ts'
import { createGithub, type Github } from './content/github/github.ts'
import type { Service } from './kernel/foundation/service.ts'
import { createJobs, type Jobs } from './kernel/jobs/jobs.ts'
import { readProgress } from './kernel/jobs/progress.ts'
import {
  type AccessCleanup,
  type AccessCleanupStep,
  createAccessCleanup,
} from './organizations/access-cleanup/access-cleanup.ts'
import { type AuditVerifier, createAuditVerifier } from './organizations/audit-events/verifier.ts'
import { mailingNotices } from './organizations/directories/notices.ts'
import { createMailSender } from './organizations/mail/sender.ts'
import { expiringInvitations } from './organizations/organizations/invitations.ts'
import { createBilling } from './plans/billing/billing.ts'
import { workingAtBillingProvider } from './plans/billing/billing-jobs.ts'
import { createAnonymousLimits } from './plans/budgets/anonymous.ts'
import { expiringBudgets } from './plans/budgets/expiry.ts'
import type { Billing } from './plans/subscriptions/billing-provider.ts'
import { rankingUsage } from './plans/usage/rankings.ts'
import { createContentsDays, expiringContents } from './tools/call-records/contents.ts'
import { createToolCallRecorder, type ToolCallRecorder } from './tools/call-records/recorder.ts'
import { disconnectUser } from './tools/consent/revocation.ts'
import { createHub, type Hub } from './tools/hub/hub.ts'
import { createRemoteTools } from './tools/remote-tools/remote-tools.ts'
import { forgetIdentity } from './visitors/end-users/held-identities.ts'
import { createIdentities, type Identities } from './visitors/end-users/identities.ts'
import { createKeyLookup, type KeyLookup } from './visitors/publishable-keys/key-lookup.ts'
import { createHeldAccess, type HeldAccess } from './visitors/tickets/ends-of-access.ts'
import { createPreviewTokens, type PreviewTokens } from './visitors/tickets/preview-tokens.ts'
import { createTickets, type Tickets } from './visitors/tickets/signed-tickets.ts'

/** The service and all capabilities that keep state between requests. Operations and tools declare which they need. */
export interface Capabilities extends Service, Billing {
  jobs: Jobs
  keyLookup: KeyLookup
  identities: Identities
  tickets: Tickets
  heldAccess: HeldAccess
  auditVerifier: AuditVerifier
  previewTokens: PreviewTokens
  agentSessions: AgentSessions
  models: Models
  agentSettings: AgentSettingsReader
  accessCleanup: AccessCleanup
  erasures: Erasures
  github: Github
  toolCalls: ToolCallRecorder
  hub: Hub
  runs: Runs
  agUi: AgUi
  runtime: Runtime
}

/** Steps that run when a member leaves an organization, or an end user loses their access. */
const accessCleanupSteps = [forgetIdentity, disconnectUser]

/**
 * The only place where capabilities are created. Each gets the service and the capabilities before it. They are closed in
 * the reverse order, also if one of them can't be created.
 */
export async function createCapabilities(service: Service, builtInNames: ReadonlySet<string>): Promise<Capabilities> {
  await using opened = new AsyncDisposableStack()
  const keep = <Each extends { close(): Promise<void> | void } | undefined>(each: Each): Each => {
    if (each) opened.defer(() => each.close())
    return each
  }
  keep(service)
  const jobs = createJobs(service)
  const keyLookup = createKeyLookup(service)
  const identities = createIdentities(service)
  const tickets = createTickets(service)
  const previewTokens = createPreviewTokens(service, (grantId) => hasGrant(service, grantId))
  const agentSessions = createAgentSessions(service)
  const models = keep(await createModels(service))
  const agentSettings = createAgentSettings(service)
  const mayVisitorsTalk = async (id: string) => (await agentSettings.of(id)).anonymous.is_enabled
  const heldAccess = keep(createHeldAccess(service, mayVisitorsTalk))
  const billing = keep(await createBilling(service))
  const remoteTools = createRemoteTools(service, builtInNames)
  const toolCalls = keep(createToolCallRecorder(service, createContentsDays(service)))
  const hub = keep(await createHub(service, builtInNames, remoteTools, toolCalls))
  const telemetry = keep(createTelemetry(service))
  const runs = keep(
    await createRuns({
      ...service,
      heldAccess,
      telemetry,
      models,
      agentSettings,
      prices: createPrices(service.config),
      toolbox: createToolbox({ ...service, hub, remoteTools }, (id) => agentSettings.of(id)),
      anonymous: createAnonymousLimits(service),
    }),
  )
  const agUi = keep(await createAgUi({ ...service, runs, agentSessions, heldAccess }))
  const chat = createChat({ ...service, runs, agentSettings, models })
  const runtime = keep(await createRuntime(service, tickets, heldAccess, hub, chat, runs, toolCalls))
  const auditVerifier = keep(createAuditVerifier(service))
  const endRuns: AccessCleanupStep = (_, organizationId, personId) => runs.endAccess(organizationId, personId)
  const accessCleanup = createAccessCleanup({ ...service, jobs }, [endRuns, ...accessCleanupSteps])
  const erasures = createErasures({ ...service, accessCleanup, runs, jobs })
  const github = keep(createGithub(service))
  // The other metrics are needed most while PostgreSQL is away.
  service.metrics.observeJobs(() =>
    readProgress(service.database).catch((error) => {
      service.log.warn({ err: error }, 'Could not read the progress of background jobs')
      return []
    }),
  )
  const { mail } = service.config
  const mailSender = mail && keep(createMailSender(service, mail))
  keep(
    jobs.serve([
      ...workingAtBillingProvider({ ...service, billing }),
      expiringBudgets,
      rankingUsage(service),
      expiringInvitations,
      ...(mailSender ? [mailSender.kind, mailingNotices(service)] : []),
      checkingDomains(service),
      checkingPlans(service),
      expiringContents,
      erasingConversations,
      auditVerifier.kind,
      syncingCode({ ...service, github }),
      accessCleanup.kind,
      erasures.kind,
    ]),
  )
  const all = opened.move()
  return {
    ...service,
    jobs,
    keyLookup,
    identities,
    tickets,
    heldAccess,
    auditVerifier,
    previewTokens,
    agentSessions,
    models,
    agentSettings,
    billing,
    accessCleanup,
    erasures,
    github,
    toolCalls,
    hub,
    runs,
    agUi,
    runtime,
    close: () => all.disposeAsync(),
  }
}
