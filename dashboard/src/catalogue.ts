import type { t as agent } from './pages/agent/texts.ts'
import type { t as audit } from './pages/audit/texts.ts'
import type { t as billing } from './pages/billing/texts.ts'
import type { t as budgets } from './pages/budgets/texts.ts'
import type { t as codeHost } from './pages/code-host/texts.ts'
import type { t as connectors } from './pages/connectors/texts.ts'
import type { t as diagnosticsAdvice } from './pages/diagnostics/advice.ts'
import type { t as diagnostics } from './pages/diagnostics/texts.ts'
import type { t as diagnosticsVerdict } from './pages/diagnostics/verdict.tsx'
import type { t as directory } from './pages/directory/texts.ts'
import type { t as endUsers } from './pages/end-users/texts.ts'
import type { t as feedback } from './pages/feedback/feedback.tsx'
import type { t as governance } from './pages/governance/texts.ts'
import type { t as hubArguments } from './pages/hub/arguments.ts'
import type { t as hub } from './pages/hub/texts.ts'
import type { t as identityProvider } from './pages/identity-provider/texts.ts'
import type { guides as identityProviderVendors } from './pages/identity-provider/vendors.ts'
import type { t as origins } from './pages/keys/origins/origins.ts'
import type { t as originsField } from './pages/keys/origins/origins-field.tsx'
import type { t as snippets } from './pages/keys/snippets/snippets.tsx'
import type { t as keys } from './pages/keys/texts.ts'
import type { t as mcpClients } from './pages/mcp/clients.ts'
import type { t as mcp } from './pages/mcp/mcp.tsx'
import type { t as members } from './pages/members/texts.ts'
import type { t as newOrganization } from './pages/new-organization/new-organization.tsx'
import type { t as singleSignOn } from './pages/organization/single-sign-on-texts.ts'
import type { t as organization } from './pages/organization/texts.ts'
import type { t as overview } from './pages/overview/texts.ts'
import type { t as pages } from './pages/pages.ts'
import type { t as serviceAccounts } from './pages/service-accounts/texts.ts'
import type { t as skills } from './pages/skills/texts.ts'
import type { t as threads } from './pages/threads/texts.ts'
import type { t as toolCalls } from './pages/tool-calls/texts.ts'
import type { t as tryIt } from './pages/try-it/texts.ts'
import type { t as usage } from './pages/usage/usage.tsx'
import type { t as shell } from './shell/texts.ts'
import type { t as range } from './ui/controls/range.tsx'
import type { t as adminsOnly } from './ui/display/admins-only.tsx'
import type { t as unsaved } from './ui/overlays/unsaved.tsx'
import type { t as rows } from './ui/tables/rows.tsx'
import type { words } from './ui/words.ts'

/** The English texts of each section that a language translates. */
interface Catalogue {
  range: typeof range
  adminsOnly: typeof adminsOnly
  unsaved: typeof unsaved
  rows: typeof rows
  words: typeof words
  shell: typeof shell
  pages: typeof pages
  agent: typeof agent
  audit: typeof audit
  billing: typeof billing
  budgets: typeof budgets
  codeHost: typeof codeHost
  connectors: typeof connectors
  diagnosticsAdvice: typeof diagnosticsAdvice
  diagnostics: typeof diagnostics
  diagnosticsVerdict: typeof diagnosticsVerdict
  directory: typeof directory
  endUsers: typeof endUsers
  feedback: typeof feedback
  governance: typeof governance
  hubArguments: typeof hubArguments
  hub: typeof hub
  identityProvider: typeof identityProvider
  identityProviderVendors: typeof identityProviderVendors
  originsField: typeof originsField
  origins: typeof origins
  snippets: typeof snippets
  keys: typeof keys
  mcpClients: typeof mcpClients
  mcp: typeof mcp
  members: typeof members
  newOrganization: typeof newOrganization
  singleSignOn: typeof singleSignOn
  organization: typeof organization
  overview: typeof overview
  serviceAccounts: typeof serviceAccounts
  skills: typeof skills
  threads: typeof threads
  toolCalls: typeof toolCalls
  tryIt: typeof tryIt
  usage: typeof usage
}

/** What is missing is shown in English. Functions and lists are translated whole. */
type Translated<Texts> = Texts extends string | readonly unknown[] | ((...given: never) => unknown)
  ? Texts
  : { [Name in keyof Texts]?: Translated<Texts[Name]> }

export type Translation = Translated<Catalogue>
