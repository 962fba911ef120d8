import { hasGrant } from './access/records.ts'
import { type AgUi, createAgUi } from './ag-ui/endpoint.ts'
import { type AgentSessions, createAgentSessions } from './ag-ui/sessions.ts'
import { type AgentSettingsReader, createAgentSettings } from './agent/agent-settings.ts'
import { createRuns } from './agent-loop/create-runs.ts'
import { createToolbox } from './agent-tools/create-toolbox.ts'
import { type AuditVerifier, createAuditVerifier } from './audit-events/verifier.ts'
import { createBilling } from './billing/billing.ts'
import { type BillingWork, createBillingWork } from './billing/work.ts'
import { createAnonymousLimits } from './budgets/anonymous.ts'
import { keepExpiringBudgets } from './budgets/expiry.ts'
import { createChat } from './chat/chat.ts'
import { disconnectUser } from './consent/revocation.ts'
import { createDepartures, type Departures } from './departures/departures.ts'
import { keepMailingNotices } from './directories/notices.ts'
import { forgetIdentity } from './end-users/held-identities.ts'
import { createIdentities, type Identities } from './end-users/identities.ts'
import type { Service } from './foundation/service.ts'
import { createGithub, type Github } from './github/github.ts'
import { type CodeSync, createCodeSync } from './github-app/sync.ts'
import { createHub, type Hub } from './hub/hub.ts'
import { createMailSender } from './mail/sender.ts'
import { createModels } from './models/create-models.ts'
import type { Models } from './models/models.ts'
import { createPrices } from './models/prices.ts'
import { keepCheckingDomains } from './organization-sign-in/domain-checks.ts'
import { keepExpiringInvitations } from './organizations/invitations.ts'
import { createErasures, type Erasures } from './personal-data/erasures.ts'
import { createKeyLookup, type KeyLookup } from './publishable-keys/key-lookup.ts'
import { createRemoteTools } from './remote-tools/remote-tools.ts'
import type { Runs } from './runs/runs.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import type { Billing } from './subscriptions/billing-provider.ts'
import { createTelemetry } from './telemetry/telemetry.ts'
import { keepErasing } from './threads/retention.ts'
import { createHeldAccess, type HeldAccess } from './tickets/held-access.ts'
import { createPreviewTokens, type PreviewTokens } from './tickets/preview-tokens.ts'
import { createTickets, type Tickets } from './tickets/signed-tickets.ts'
import { createContentsDays, keepExpiring } from './tool-calls/contents.ts'
import { createToolCallRecorder, type ToolCallRecorder } from './tool-calls/recorder.ts'

/** The service and all capabilities that keep state between requests. Operations and tools declare which they need. */
export interface Capabilities extends Service, Billing {
  billingWork: BillingWork
  keyLookup: KeyLookup
  identities: Identities
  tickets: Tickets
  heldAccess: HeldAccess
  auditVerifier: AuditVerifier
  previewTokens: PreviewTokens
  agentSessions: AgentSessions
  models: Models
  agentSettings: AgentSettingsReader
  departures: Departures
  erasures: Erasures
  github: Github
  codeSync: CodeSync
  toolCalls: ToolCallRecorder
  hub: Hub
  runs: Runs
  agUi: AgUi
  runtime: Runtime
}

/** Steps that run when a member leaves an organization, or an end user loses their access. */
export const departureSteps = [forgetIdentity, disconnectUser]

/** The only place where capabilities are created. Each gets the service and the capabilities before it. */
export async function createCapabilities(service: Service, builtInNames: ReadonlySet<string>): Promise<Capabilities> {
  const keyLookup = createKeyLookup(service)
  const identities = createIdentities(service)
  const tickets = createTickets(service)
  const previewTokens = createPreviewTokens(service, (grantId) => hasGrant(service, grantId))
  const agentSessions = createAgentSessions(service)
  const models = await createModels(service)
  const agentSettings = createAgentSettings(service)
  const heldAccess = createHeldAccess(service, async (id) => (await agentSettings.of(id)).anonymous.is_enabled)
  const billing = await createBilling(service)
  const billingWork = createBillingWork({ ...service, billing })
  const remoteTools = createRemoteTools(service, builtInNames)
  const toolCalls = createToolCallRecorder(service, createContentsDays(service))
  const hub = await createHub(service, builtInNames, remoteTools, toolCalls)
  const telemetry = createTelemetry(service)
  const runs = await createRuns({
    ...service,
    heldAccess,
    telemetry,
    models,
    agentSettings,
    prices: createPrices(service.config),
    toolbox: createToolbox({ ...service, hub, remoteTools }, (id) => agentSettings.of(id)),
    anonymous: createAnonymousLimits(service),
  })
  const agUi = await createAgUi({ ...service, runs, agentSessions, heldAccess })
  const chat = createChat({ ...service, runs, agentSettings, models })
  const runtime = await createRuntime(service, tickets, heldAccess, hub, chat, runs, toolCalls)
  const auditVerifier = createAuditVerifier(service)
  const expiry = keepExpiring(service)
  const erasure = keepErasing(service)
  const budgetExpiry = keepExpiringBudgets(service)
  const invitationExpiry = keepExpiringInvitations(service)
  const notices = keepMailingNotices(service)
  const mailSender = createMailSender(service)
  const domainChecks = keepCheckingDomains(service)
  const departures = createDepartures(service, [
    (_, organizationId, personId) => runs.endAccess(organizationId, personId),
    ...departureSteps,
  ])
  const erasures = createErasures({ ...service, departures, runs })
  const github = createGithub(service)
  const codeSync = createCodeSync({ ...service, github })
  return {
    ...service,
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
    billingWork,
    departures,
    erasures,
    github,
    codeSync,
    toolCalls,
    hub,
    runs,
    agUi,
    runtime,
    async close() {
      await erasures.close()
      await departures.close()
      await codeSync.close()
      await github.close()
      await auditVerifier.close()
      await expiry.close()
      await erasure.close()
      await budgetExpiry.close()
      await invitationExpiry.close()
      await notices.close()
      await mailSender.close()
      await domainChecks.close()
      await billingWork.close()
      await billing?.close()
      await runtime.close()
      await agUi.close()
      await runs.close()
      heldAccess.stop()
      await telemetry?.close()
      await hub.close()
      await toolCalls.close()
      await models.close()
      await service.close()
    },
  }
}
