import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorRouteComponent,
  lazyRouteComponent,
  Outlet,
} from '@tanstack/react-router'
import { allPages } from './pages/pages.ts'
import { Crashed, NotFound } from './shell/faults.tsx'
import { Home } from './shell/home.tsx'
import { SessionEnded } from './shell/session-ended.tsx'
import { Shell } from './shell/shell.tsx'
import { Toasts } from './ui/overlays/toasts.tsx'

const root = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <SessionEnded />
      <Toasts />
    </>
  ),
  notFoundComponent: NotFound,
})

const home = createRoute({ getParentRoute: () => root, path: '/', component: Home })
const newOrganization = createRoute({
  getParentRoute: () => root,
  path: '/organizations/new',
  component: lazyRouteComponent(() => import('./pages/new-organization/new-organization.tsx')),
})
const organization = createRoute({ getParentRoute: () => root, path: '/o/$slug', component: Shell })

/** Details are shown by the page that lists them, so both URLs have the same component. */
const pages = allPages.flatMap(({ path, hasDetails, load }) => {
  const component = lazyRouteComponent(load)
  const paths = hasDetails ? [path, `${path}/$id`] : [path]
  return paths.map((one) => createRoute({ getParentRoute: () => organization, path: one || '/', component }))
})

export const router = createRouter({
  routeTree: root.addChildren([home, newOrganization, organization.addChildren(pages)]),
  defaultErrorComponent: Crashed as ErrorRouteComponent,
  defaultPreload: 'intent',
  scrollRestoration: true,
})
