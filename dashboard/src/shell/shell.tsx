import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router'
import { BookOpen, ChevronsUpDown, Keyboard, LogOut, Menu as MenuIcon, Plus, Search, ShieldCheck } from 'lucide-react'
import { lazy, Suspense, useEffect, useRef, useState } from 'react'
import { language, setLanguage } from '../lib/language.ts'
import { languages } from '../lib/languages.ts'
import { readTheme, setTheme, type Theme, themes } from '../lib/theme.ts'
import mark from '../mark.svg'
import { pageGroups } from '../pages/pages.ts'
import { isTokenFor, meQuery, useOrganization, useOrgPath } from '../session/me.ts'
import { switchOrganization } from '../session/session.ts'
import { signOut } from '../session/sign-out.ts'
import { Button, IconButton } from '../ui/controls/button.tsx'
import { EmptyState, ErrorState, Skeleton } from '../ui/display/states.tsx'
import { Menu } from '../ui/overlays/menu.tsx'
import { Dialog, Drawer } from '../ui/overlays/overlays.tsx'
import { paletteKeys, shortcuts, useShortcuts } from './shortcuts.ts'
import { t } from './texts.ts'

const Palette = lazy(() => import('./palette.tsx'))

/** Everything below `/o/{slug}`: checks the organization first. */
export function Shell() {
  const me = useQuery(meQuery)
  const { slug = '' } = useParams({ strict: false }) as { slug?: string }
  const organization = me.data?.organizations.find((one) => one.slug === slug)
  const isOther = organization !== undefined && !isTokenFor(organization.id)
  const { href } = useLocation()
  useEffect(() => {
    if (isOther) void switchOrganization(slug, href)
  }, [isOther, slug, href])

  if (me.error) return <ErrorState error={me.error} onRetry={() => me.refetch()} />
  if (!me.data || isOther) return <Skeleton className="mx-auto max-w-lg p-12" />
  if (!organization) return <NotMember slug={slug} />
  return <Frame />
}

function NotMember({ slug }: { slug: string }) {
  const { data: me } = useQuery(meQuery)
  const navigate = useNavigate()
  return (
    <main className="mx-auto max-w-lg py-12">
      <EmptyState
        title={t.notMember(slug)}
        text={t.notMemberText}
        action={
          <>
            {me?.organizations.slice(0, 3).map((one) => (
              <Button key={one.id} onClick={() => switchOrganization(one.slug)}>
                {one.name}
              </Button>
            ))}
            <Button icon={Plus} onClick={() => navigate({ to: '/organizations/new' })}>
              {t.newOrganization}
            </Button>
          </>
        }
      />
    </main>
  )
}

function Frame() {
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const [isSheetOpen, setSheetOpen] = useState(false)
  const [isNavigationOpen, setNavigationOpen] = useState(false)
  const { pathname } = useLocation()
  const main = useRef<HTMLElement>(null)
  const isFirst = useRef(true)
  useShortcuts(
    () => setPaletteOpen(true),
    () => setSheetOpen(true),
  )
  // As with a new document, the keyboard continues at the content, and screen readers read its title.
  const page = pathname.split('/')[3]
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another page moves the focus
  useEffect(() => {
    setNavigationOpen(false)
    if (!isFirst.current) main.current?.focus()
    isFirst.current = false
  }, [page])

  return (
    <div className="min-h-dvh lg:grid lg:grid-cols-[232px_minmax(0,1fr)]">
      <a
        href="#content"
        className="sr-only z-20 rounded-control bg-surface p-2 focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        {t.skip}
      </a>
      <aside className="sticky top-0 hidden h-dvh overflow-y-auto border-r border-line lg:block">
        <Navigation />
      </aside>
      <Drawer isOpen={isNavigationOpen} onClose={() => setNavigationOpen(false)} title="Inlay">
        <Navigation />
      </Drawer>
      <div className="min-w-0">
        <header className="sticky top-0 z-10 flex h-13 items-center gap-2 border-b border-line bg-bg px-4 lg:px-6">
          <IconButton
            icon={MenuIcon}
            label={t.openNavigation}
            className="-ml-2 lg:hidden"
            onClick={() => setNavigationOpen(true)}
          />
          <OrganizationMenu />
          <div className="flex-1" />
          <button
            type="button"
            className="flex h-8 items-center gap-2 rounded-control border border-line bg-surface px-2.5 text-faint hover:border-line-strong sm:w-72"
            aria-keyshortcuts="Control+K Meta+K"
            onClick={() => setPaletteOpen(true)}
          >
            <Search size={16} strokeWidth={1.5} aria-hidden />
            <span className="sr-only flex-1 text-left sm:not-sr-only">{t.search}</span>
            <span className="hidden gap-0.5 sm:flex" aria-hidden>
              {paletteKeys.map((key) => (
                <kbd key={key} className="kbd">
                  {key}
                </kbd>
              ))}
            </span>
          </button>
          <AccountMenu onShortcuts={() => setSheetOpen(true)} />
        </header>
        <main
          ref={main}
          id="content"
          tabIndex={-1}
          className="mx-auto w-full max-w-[1180px] px-4 pt-7 pb-12 outline-none lg:px-6"
        >
          <Suspense fallback={<Skeleton lines={6} />}>
            <Outlet />
          </Suspense>
        </main>
      </div>
      {isPaletteOpen && (
        <Suspense>
          <Palette onClose={() => setPaletteOpen(false)} />
        </Suspense>
      )}
      <Dialog isOpen={isSheetOpen} onClose={() => setSheetOpen(false)} title={t.shortcuts}>
        <dl className="grid grid-cols-[1fr_auto] gap-y-2">
          {shortcuts.map(({ keys, name }) => (
            <div key={name} className="contents">
              <dt>{name}</dt>
              <dd className="flex items-center justify-end gap-1">
                {keys.map((key) => (
                  <kbd key={key} className="kbd">
                    {key}
                  </kbd>
                ))}
              </dd>
            </div>
          ))}
        </dl>
      </Dialog>
    </div>
  )
}

function Navigation() {
  const orgPath = useOrgPath()
  return (
    <nav aria-label={t.navigation} className="p-3">
      <p className="hidden items-center gap-2 px-2 pt-1 pb-3 text-[15px] font-semibold tracking-[-0.01em] lg:flex">
        <img src={mark} alt="" width="22" height="22" /> Inlay
      </p>
      {pageGroups.map(({ name, pages }) => (
        <div key={name ?? ''}>
          {name && <p className="mx-2 mt-3.5 mb-1 text-xs text-faint">{name}</p>}
          <ul>
            {pages.map((page) => (
              <li key={page.path}>
                <Link
                  to={orgPath(page.path)}
                  activeOptions={{ exact: page.path === '', includeSearch: false }}
                  title={page.letter && `G ${t.afterG} ${page.letter.toUpperCase()}`}
                  className="flex items-center gap-2 rounded-md px-2 py-1.5 text-muted hover:bg-sunken hover:text-text aria-[current=page]:bg-accent-soft aria-[current=page]:font-[550] aria-[current=page]:text-accent"
                >
                  <page.icon size={16} strokeWidth={1.5} aria-hidden />
                  {page.name}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  )
}

function OrganizationMenu() {
  const current = useOrganization()
  const navigate = useNavigate()
  const { data: me } = useQuery(meQuery)
  const organizations = (me?.organizations ?? []).map(({ id, name, slug, role }) => ({
    name,
    note: t.roles[role],
    isChecked: id === current.id,
    onClick: () => void (id !== current.id && switchOrganization(slug)),
  }))
  return (
    <Menu
      align="start"
      trigger={{
        className: 'button button-ghost min-w-0 shrink px-2 text-text',
        'aria-label': `${t.organization}: ${current.name}`,
      }}
      entries={[
        ...organizations,
        'line',
        { name: t.newOrganization, icon: Plus, onClick: () => void navigate({ to: '/organizations/new' }) },
      ]}
    >
      <span className="truncate">{current.name}</span>
      <ChevronsUpDown size={14} strokeWidth={1.5} className="shrink-0 text-faint" aria-hidden />
    </Menu>
  )
}

const initialsOf = (name: string) =>
  name
    .split(/[\s@.]+/)
    .map((word) => [...word][0]?.toUpperCase() ?? '')
    .slice(0, 2)
    .join('')

function AccountMenu({ onShortcuts }: { onShortcuts: () => void }) {
  const { data: me } = useQuery(meQuery)
  const [theme, rememberTheme] = useState(readTheme)
  if (!me) return null
  function changeTheme(next: Theme) {
    setTheme(next)
    rememberTheme(next)
  }
  return (
    <Menu
      trigger={{
        className:
          'grid size-7 shrink-0 place-items-center rounded-full bg-brass-soft text-xs font-semibold text-brass',
        'aria-label': t.account(me.email),
      }}
      entries={[
        { heading: me.name, text: me.email },
        'line',
        { choices: t.theme, value: theme, options: themes.map((one) => [one, t.themes[one]]), onValue: changeTheme },
        { choices: t.language, value: language, options: Object.entries(languages), onValue: setLanguage },
        'line',
        { name: t.apiReference, icon: BookOpen, onClick: () => location.assign('/api/docs') },
        { name: t.shortcuts, icon: Keyboard, onClick: onShortcuts },
        { name: t.secondFactor, icon: ShieldCheck, onClick: () => location.assign('/account') },
        { name: t.signOut, icon: LogOut, onClick: () => void signOut() },
      ]}
    >
      {/* A picture rather than text: the button's name has the whole address. */}
      <span data-initials={initialsOf(me.name || me.email)} className="before:content-[attr(data-initials)]" />
    </Menu>
  )
}
