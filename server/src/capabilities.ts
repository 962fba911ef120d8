import { disconnectUser } from './consent/revocation.ts'
import { forgetIdentity } from './delegation/held-identities.ts'
import { createDepartures, type Departures } from './departures/departures.ts'
import { createIdentities, type Identities } from './end-users/identities.ts'
import type { Service } from './foundation/service.ts'
import { createHub, type Hub } from './hub/hub.ts'
import { createModels } from './models/create-models.ts'
import type { Models } from './models/models.ts'
import { createKeyLookup, type KeyLookup } from './publishable-keys/key-lookup.ts'
import { createRemoteTools } from './remote-tools/remote-tools.ts'
import { createRuntime, type Runtime } from './runtime/runtime.ts'
import { createBilling } from './subscriptions/billing.ts'
import type { Billing } from './subscriptions/billing-provider.ts'
import { createTickets, type Tickets } from './tickets/signed-tickets.ts'
import { createContentsDays, keepExpiring } from './tool-calls/contents.ts'
import { createToolCallRecorder, type ToolCallRecorder } from './tool-calls/recorder.ts'

/** The service and all capabilities that keep state between requests. Operations and tools declare which they need. */
export interface Capabilities extends Service, Billing {
  keyLookup: KeyLookup
  identities: Identities
  tickets: Tickets
  models: Models
  departures: Departures
  toolCalls: ToolCallRecorder
  hub: Hub
  runtime: Runtime
}

/** Steps that run when a member leaves an organization. */
export const departureSteps = [forgetIdentity, disconnectUser]

/** The only place where capabilities are created. Each gets the service and the capabilities before it. */
export async function createCapabilities(service: Service, builtInNames: ReadonlySet<string>): Promise<Capabilities> {
  const keyLookup = createKeyLookup(service)
  const identities = createIdentities(service)
  const tickets = createTickets(service)
  const models = await createModels(service)
  const billing = createBilling(service)
  const remoteTools = createRemoteTools(service, builtInNames)
  const toolCalls = createToolCallRecorder(service, createContentsDays(service))
  const hub = await createHub(service, builtInNames, remoteTools, toolCalls)
  const runtime = await createRuntime(service, tickets, hub, toolCalls)
  const expiry = keepExpiring(service)
  const departures = createDepartures(service, departureSteps)
  return {
    ...service,
    keyLookup,
    identities,
    tickets,
    models,
    billing,
    departures,
    toolCalls,
    hub,
    runtime,
    async close() {
      await departures.close()
      await expiry.close()
      await runtime.close()
      await hub.close()
      await toolCalls.close()
      await models.close()
      await service.close()
    },
  }
}
