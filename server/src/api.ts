import { accessRoom } from './accounts/access/room.ts'
import { confirmedBrowsersRoom } from './accounts/confirmed-browsers/room.ts'
import { organizationSignInRoom } from './accounts/organization-sign-in/room.ts'
import { serviceAccountsRoom } from './accounts/service-accounts/room.ts'
import { usersRoom } from './accounts/users/room.ts'
import { runsRoom } from './agent/runs/room.ts'
import { agentRoom } from './agent/settings/room.ts'
import { threadsRoom } from './agent/threads/room.ts'
import type { Capabilities } from './capabilities.ts'
import { agUiRoom } from './channels/ag-ui/room.ts'
import { previewRoom } from './channels/preview/room.ts'
import { personalDataRoom } from './console/personal-data/room.ts'
import { githubAppRoom } from './content/code-host/room.ts'
import { skillsRoom } from './content/skills/room.ts'
import type { Room } from './kernel/foundation/room.ts'
import { auditEventsRoom } from './organizations/audit-events/room.ts'
import { diagnosticsRoom } from './organizations/diagnostics/room.ts'
import { directoriesRoom } from './organizations/directories/room.ts'
import { organizationsRoom } from './organizations/organizations/room.ts'
import { budgetsRoom } from './plans/budgets/room.ts'
import { plansRoom } from './plans/plans/room.ts'
import { subscriptionsRoom } from './plans/subscriptions/room.ts'
import { usageRoom } from './plans/usage/room.ts'
import { toolCallsRoom } from './tools/call-records/room.ts'
import { governanceRoom } from './tools/governance/room.ts'
import { hubRoom } from './tools/hub/room.ts'
import { remoteToolsRoom } from './tools/remote-tools/room.ts'
import { endUsersRoom } from './visitors/end-users/room.ts'
import { identityProviderRoom } from './visitors/identity-provider/room.ts'
import { publishableKeysRoom } from './visitors/publishable-keys/room.ts'
import { sitesRoom } from './visitors/sites/room.ts'
import { ticketsRoom } from './visitors/tickets/room.ts'

const rooms: readonly Room<Capabilities>[] = [
  usersRoom,
  accessRoom,
  organizationsRoom,
  publishableKeysRoom,
  previewRoom,
  serviceAccountsRoom,
  ticketsRoom,
  identityProviderRoom,
  confirmedBrowsersRoom,
  organizationSignInRoom,
  sitesRoom,
  endUsersRoom,
  personalDataRoom,
  governanceRoom,
  plansRoom,
  subscriptionsRoom,
  hubRoom,
  toolCallsRoom,
  remoteToolsRoom,
  skillsRoom,
  diagnosticsRoom,
  githubAppRoom,
  usageRoom,
  budgetsRoom,
  threadsRoom,
  runsRoom,
  agentRoom,
  agUiRoom,
  directoriesRoom,
  auditEventsRoom,
]

/** Every REST operation and its handler. */
export const api = rooms.flatMap(({ routes }) => routes)

/** Every MCP tool, in the order in which clients list them. */
export const tools = rooms.flatMap((room) => room.tools)

/** Tools of pages and connectors can't have these names. */
export const builtInNames: ReadonlySet<string> = new Set(tools.map(({ name }) => name))

/** Description of each tag in the API reference. */
export const tags: Readonly<Record<string, string>> = Object.assign({}, ...rooms.map((room) => room.tags))
