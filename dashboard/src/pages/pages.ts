import {
  BookOpenText,
  Bot,
  ChartColumn,
  ContactRound,
  CreditCard,
  Fingerprint,
  FolderTree,
  Gauge,
  GitBranch,
  KeyRound,
  type LucideIcon,
  MessageSquare,
  MessagesSquare,
  Plug,
  ScrollText,
  ServerCog,
  Settings,
  ShieldCheck,
  Stethoscope,
  ThumbsUp,
  Unplug,
  Users,
  Wallet,
  Waypoints,
  Wrench,
} from 'lucide-react'
import type { ComponentType } from 'react'
import { texts } from '../lib/texts.ts'

export interface Page {
  /** Below `/o/{slug}/`. */
  path: string
  name: string
  icon: LucideIcon
  /** The letter that opens the page after `g`. */
  letter?: string
  /** The page also shows the details of one thing, at `{path}/{id}`. */
  hasDetails?: true
  /** What the command palette offers to do on this page. The page reads it from its URL. */
  actions?: { name: string; search: Record<string, string> }[]
  load: () => Promise<{ default: ComponentType }>
}

export const t = texts('pages', {
  overview: 'Overview',
  tryIt: 'Try it',
  observe: 'Observe',
  usage: 'Usage',
  threads: 'Threads',
  toolCalls: 'Tool calls',
  endUsers: 'End users',
  feedback: 'Feedback',
  build: 'Build',
  agent: 'Agent',
  skills: 'Skills',
  writeSkill: 'Write a skill',
  hub: 'Hub',
  connectors: 'Connectors',
  addConnector: 'Add a connector',
  control: 'Control',
  keys: 'Keys and sites',
  createKey: 'Create a publishable key',
  serviceAccounts: 'Service accounts',
  createServiceAccount: 'Create a service account',
  identityProvider: 'Identity provider',
  governance: 'Governance',
  budgets: 'Budgets',
  organization: 'Organization',
  members: 'Members',
  invite: 'Invite a member',
  directory: 'Directory',
  connectDirectory: 'Connect a directory',
  codeHost: 'Code host',
  billing: 'Plan and billing',
  audit: 'Audit log',
  settings: 'Settings',
  help: 'Help',
  diagnostics: 'Diagnostics',
  mcp: 'MCP',
})

/** Every page, in the order of the navigation. */
export const pageGroups: { name?: string; pages: Page[] }[] = [
  {
    pages: [
      { path: '', name: t.overview, icon: Gauge, letter: 'o', load: () => import('./overview/overview.tsx') },
      { path: 'try-it', name: t.tryIt, icon: MessageSquare, letter: 'r', load: () => import('./try-it/try-it.tsx') },
    ],
  },
  {
    name: t.observe,
    pages: [
      { path: 'usage', name: t.usage, icon: ChartColumn, letter: 'u', load: () => import('./usage/usage.tsx') },
      {
        path: 'threads',
        name: t.threads,
        icon: MessagesSquare,
        letter: 't',
        hasDetails: true,
        load: () => import('./threads/threads.tsx'),
      },
      {
        path: 'tool-calls',
        name: t.toolCalls,
        icon: Wrench,
        letter: 'l',
        hasDetails: true,
        load: () => import('./tool-calls/tool-calls.tsx'),
      },
      {
        path: 'end-users',
        name: t.endUsers,
        icon: ContactRound,
        letter: 'e',
        hasDetails: true,
        load: () => import('./end-users/end-users.tsx'),
      },
      {
        path: 'feedback',
        name: t.feedback,
        icon: ThumbsUp,
        letter: 'f',
        load: () => import('./feedback/feedback.tsx'),
      },
    ],
  },
  {
    name: t.build,
    pages: [
      { path: 'agent', name: t.agent, icon: Bot, letter: 'n', load: () => import('./agent/agent.tsx') },
      {
        path: 'skills',
        name: t.skills,
        icon: BookOpenText,
        letter: 's',
        hasDetails: true,
        actions: [{ name: t.writeSkill, search: { create: 'yes' } }],
        load: () => import('./skills/skills.tsx'),
      },
      { path: 'hub', name: t.hub, icon: Waypoints, letter: 'h', load: () => import('./hub/hub.tsx') },
      {
        path: 'connectors',
        name: t.connectors,
        icon: Plug,
        letter: 'c',
        hasDetails: true,
        actions: [{ name: t.addConnector, search: { create: 'yes' } }],
        load: () => import('./connectors/connectors.tsx'),
      },
    ],
  },
  {
    name: t.control,
    pages: [
      {
        path: 'keys',
        name: t.keys,
        icon: KeyRound,
        letter: 'k',
        hasDetails: true,
        actions: [{ name: t.createKey, search: { create: 'yes' } }],
        load: () => import('./keys/keys.tsx'),
      },
      {
        path: 'service-accounts',
        name: t.serviceAccounts,
        icon: ServerCog,
        letter: 'q',
        hasDetails: true,
        actions: [{ name: t.createServiceAccount, search: { create: 'yes' } }],
        load: () => import('./service-accounts/service-accounts.tsx'),
      },
      {
        path: 'identity-provider',
        name: t.identityProvider,
        icon: Fingerprint,
        letter: 'i',
        load: () => import('./identity-provider/identity-provider.tsx'),
      },
      {
        path: 'governance',
        name: t.governance,
        icon: ShieldCheck,
        letter: 'v',
        load: () => import('./governance/governance.tsx'),
      },
      { path: 'budgets', name: t.budgets, icon: Wallet, letter: 'w', load: () => import('./budgets/budgets.tsx') },
    ],
  },
  {
    name: t.organization,
    pages: [
      {
        path: 'members',
        name: t.members,
        icon: Users,
        letter: 'b',
        actions: [{ name: t.invite, search: { invite: 'yes' } }],
        load: () => import('./members/members.tsx'),
      },
      {
        path: 'directory',
        name: t.directory,
        icon: FolderTree,
        letter: 'y',
        hasDetails: true,
        actions: [{ name: t.connectDirectory, search: { create: 'yes' } }],
        load: () => import('./directory/directory.tsx'),
      },
      {
        path: 'code-host',
        name: t.codeHost,
        icon: GitBranch,
        letter: 'x',
        load: () => import('./code-host/code-host.tsx'),
      },
      { path: 'billing', name: t.billing, icon: CreditCard, letter: 'p', load: () => import('./billing/billing.tsx') },
      {
        path: 'audit',
        name: t.audit,
        icon: ScrollText,
        letter: 'a',
        hasDetails: true,
        load: () => import('./audit/audit.tsx'),
      },
      {
        path: 'organization',
        name: t.settings,
        icon: Settings,
        letter: 'z',
        load: () => import('./organization/organization.tsx'),
      },
    ],
  },
  {
    name: t.help,
    pages: [
      {
        path: 'diagnostics',
        name: t.diagnostics,
        icon: Stethoscope,
        letter: 'd',
        load: () => import('./diagnostics/diagnostics.tsx'),
      },
      { path: 'mcp', name: t.mcp, icon: Unplug, letter: 'm', load: () => import('./mcp/mcp.tsx') },
    ],
  },
]

export const allPages: Page[] = pageGroups.flatMap(({ pages }) => pages)
