import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Building2, LogOut, type LucideIcon, Monitor, Moon, Plus, Sun } from 'lucide-react'
import { setTheme } from '../lib/theme.ts'
import { pageGroups } from '../pages/pages.ts'
import { meQuery, useOrgPath } from '../session/me.ts'
import { switchOrganization } from '../session/session.ts'
import { signOut } from '../session/sign-out.ts'
import { t } from './texts.ts'

export interface Command {
  group: string
  name: string
  icon: LucideIcon
  keys?: string[]
  run: () => void
}

/** Everything that the palette offers: pages, what can be done on them, organizations, and settings of this browser. */
export function useCommands(): Command[] {
  const navigate = useNavigate()
  const orgPath = useOrgPath()
  const { data: me } = useQuery(meQuery)
  const pages = pageGroups.flatMap((group) =>
    group.pages.map(({ path, name, icon, letter }) => ({
      group: group.name ?? t.pages,
      name,
      icon,
      ...(letter && { keys: ['G', letter.toUpperCase()] }),
      run: () => void navigate({ to: orgPath(path) }),
    })),
  )
  const actions = pageGroups
    .flatMap((group) => group.pages)
    .flatMap(({ path, icon, actions = [] }) =>
      actions.map(({ name, search }) => ({
        group: t.actions,
        name,
        icon,
        run: () => void navigate({ to: orgPath(path), search: search as never }),
      })),
    )
  const organizations = (me?.organizations ?? []).map(({ name, slug }) => ({
    group: t.organizations,
    name: t.switchTo(name),
    icon: Building2,
    run: () => void switchOrganization(slug),
  }))
  const here = [
    { name: t.newOrganization, icon: Plus, run: () => void navigate({ to: '/organizations/new' }) },
    { name: `${t.theme}: ${t.themes.light}`, icon: Sun, run: () => setTheme('light') },
    { name: `${t.theme}: ${t.themes.dark}`, icon: Moon, run: () => setTheme('dark') },
    { name: `${t.theme}: ${t.themes.system}`, icon: Monitor, run: () => setTheme('system') },
    { name: t.signOut, icon: LogOut, run: () => void signOut() },
  ].map((command) => ({ group: t.actions, ...command }))
  return [...pages, ...actions, ...organizations, ...here]
}
