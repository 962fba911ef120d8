import { accessRoom } from './access/room.ts'
import { agUiRoom } from './ag-ui/room.ts'
import { agentRoom } from './agent/room.ts'
import { auditEventsRoom } from './audit-events/room.ts'
import { budgetsRoom } from './budgets/room.ts'
import type { Capabilities } from './capabilities.ts'
import { confirmedBrowsersRoom } from './confirmed-browsers/room.ts'
import { diagnosticsRoom } from './diagnostics/room.ts'
import { directoriesRoom } from './directories/room.ts'
import { endUsersRoom } from './end-users/room.ts'
import type { Room } from './foundation/room.ts'
import { githubAppRoom } from './github-app/room.ts'
import { governanceRoom } from './governance/room.ts'
import { hubRoom } from './hub/room.ts'
import { identityProviderRoom } from './identity-provider/room.ts'
import { organizationSignInRoom } from './organization-sign-in/room.ts'
import { organizationsRoom } from './organizations/room.ts'
import { personalDataRoom } from './personal-data/room.ts'
import { plansRoom } from './plans/room.ts'
import { previewRoom } from './preview/room.ts'
import { publishableKeysRoom } from './publishable-keys/room.ts'
import { remoteToolsRoom } from './remote-tools/room.ts'
import { runsRoom } from './runs/room.ts'
import { serviceAccountsRoom } from './service-accounts/room.ts'
import { sitesRoom } from './sites/room.ts'
import { skillsRoom } from './skills/room.ts'
import { subscriptionsRoom } from './subscriptions/room.ts'
import { threadsRoom } from './threads/room.ts'
import { ticketsRoom } from './tickets/room.ts'
import { toolCallsRoom } from './tool-calls/room.ts'
import { usageRoom } from './usage/room.ts'
import { usersRoom } from './users/room.ts'

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
