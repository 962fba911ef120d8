import type { components } from '@inlay/client'
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Download, Trash2, Wrench } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { saveFile } from '../../lib/files.ts'
import { formatCompact, formatMoney, formatNumber } from '../../lib/format.ts'
import { api, read, unwrap, unwrapPage } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button, buttonClass } from '../../ui/controls/button.tsx'
import { Badge, Facts } from '../../ui/display/layout.tsx'
import { ErrorState, Loaded, Skeleton } from '../../ui/display/states.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import { endUserName } from '../../ui/end-user-name.ts'
import { ConfirmDialog, Sheet } from '../../ui/overlays/overlays.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { EndUserBudget } from './budget.tsx'
import { ConfirmedBrowsers } from './confirmed-browsers.tsx'
import { t } from './texts.ts'

type EndUser = components['schemas']['EndUser']

const endUserQuery = (id: string) =>
  read(['end-users', 'one', id], (signal) => api.GET('/end-users/{id}', { params: { path: { id } }, signal }))

export function EndUserSheet({ id, isOpen, onClose }: { id: string; isOpen: boolean; onClose: () => void }) {
  const user = useQuery(endUserQuery(id))
  const name = user.data ? user.data.email || user.data.external_id : t.user
  return (
    <Sheet isOpen={isOpen} onClose={onClose} title={user.data ? endUserName(user.data) : t.user}>
      <Loaded query={user} lines={8}>
        {(data) => <EndUserDetails user={data} name={name} onClose={onClose} />}
      </Loaded>
    </Sheet>
  )
}

function EndUserDetails({ user, name, onClose }: { user: EndUser; name: string; onClose: () => void }) {
  const { isAdmin } = useOrganization()
  const orgPath = useOrgPath()
  return (
    <div className="grid grid-cols-1 gap-6">
      <Facts
        facts={[
          [t.email, user.email || <span className="text-muted">{t.noEmail}</span>],
          [
            t.externalId,
            <span key="external" className="mono">
              {user.external_id}
            </span>,
          ],
          [
            t.id,
            <span key="id" className="mono">
              {user.id}
            </span>,
          ],
          [t.lastActive, <Ago key="active" at={user.last_activity_at} />],
          [t.firstSeen, <Time key="created" at={user.created_at} />],
          [t.updated, <Time key="updated" at={user.updated_at} />],
        ]}
      />
      <Claims metadata={user.metadata} />
      <Usage id={user.id} />
      {isAdmin && <EndUserBudget id={user.id} name={name} />}
      <Threads id={user.id} />
      {isAdmin && (
        <Part title={t.browsers}>
          <ConfirmedBrowsers id={user.id} />
        </Part>
      )}
      {isAdmin && (
        <div className="flex flex-wrap justify-between gap-2 border-t border-line pt-4">
          <Link to={orgPath('tool-calls')} search={{ user: user.id } as never} className={buttonClass()}>
            <Wrench size={16} strokeWidth={1.5} aria-hidden />
            {t.toolCalls}
          </Link>
          <Export id={user.id} />
          <Erase id={user.id} name={name} onDone={onClose} />
        </div>
      )}
    </div>
  )
}

const Part = ({ title, children }: { title: string; children: ReactNode }) => (
  <section aria-label={title}>
    <h3 className="mb-2 font-semibold">{title}</h3>
    {children}
  </section>
)

/** The claims are text from the identity provider, of any shape. */
function Claims({ metadata }: { metadata: string }) {
  const claims = Object.entries(JSON.parse(metadata) as Record<string, unknown>)
  if (claims.length === 0) return null
  return (
    <Part title={t.claims}>
      <Facts facts={claims.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)])} />
    </Part>
  )
}

const statsQuery = (end_user_id: string) =>
  read(['end-users', 'one', end_user_id, 'stats'], (signal) =>
    api.GET('/usage/end-users/{end_user_id}/stats', { params: { path: { end_user_id } }, signal }),
  )

function Usage({ id }: { id: string }) {
  const stats = useQuery(statsQuery(id))
  return (
    <Part title={t.usage}>
      <Loaded query={stats} lines={2}>
        {(data) => (
          <dl className="mb-3 grid grid-cols-3 gap-2">
            {[
              [t.requests, formatCompact(data.total_requests)],
              [t.tokens, formatCompact(data.total_tokens)],
              [t.cost, formatMoney(data.total_cost_micro_usd)],
            ].map(([name, value]) => (
              <div key={name} className="rounded-control border border-line px-3 py-2">
                <dt className="text-sm text-muted">{name}</dt>
                <dd className="text-lg font-semibold tracking-[-0.01em]">{value}</dd>
              </div>
            ))}
          </dl>
        )}
      </Loaded>
      <History id={id} />
    </Part>
  )
}

const rowsAtOnce = 10

function History({ id }: { id: string }) {
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['end-users', 'one', id, 'history'],
    initialPageParam: undefined as string | undefined,
    queryFn({ pageParam: cursor, signal }) {
      const params = { path: { end_user_id: id }, query: { limit: rowsAtOnce, ...(cursor && { cursor }) } }
      return unwrapPage(api.GET('/usage/end-users/{end_user_id}/history', { params, signal }))
    },
    getNextPageParam: ({ next_cursor }) => next_cursor ?? undefined,
  })
  if (error && !data) return <ErrorState error={error} onRetry={() => refetch()} />
  if (!data) return <Skeleton />
  const events = data.pages.flatMap(({ page }) => page.events)
  if (events.length === 0) return <p className="text-muted">{t.noUsage}</p>
  return (
    <>
      <table className="w-full text-sm" aria-label={t.history}>
        <thead>
          <tr className="text-left text-muted">
            {[t.model, t.tokens, t.cost, t.time].map((header, index) => (
              <th key={header} scope="col" className={`py-1 font-[550] ${index > 0 ? 'text-right' : ''}`}>
                {header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.id} className="border-t border-line">
              <td className="max-w-44 py-1.5">
                <span className="mono">{event.model}</span>
                {event.is_estimated && <Badge tone="wait">{t.estimated}</Badge>}
              </td>
              <td className="py-1.5 text-right">{formatNumber(event.total_tokens)}</td>
              <td className="py-1.5 text-right">
                {event.cost_micro_usd === null ? '–' : formatMoney(event.cost_micro_usd)}
              </td>
              <td className="py-1.5 text-right text-muted">
                <Ago at={event.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {hasNextPage && (
        <Button className="mt-2" isPending={isFetchingNextPage} onClick={() => fetchNextPage()}>
          {words.more}
        </Button>
      )}
    </>
  )
}

const threadsQuery = (id: string) =>
  read(['end-users', 'one', id, 'threads'], (signal) =>
    api.GET('/end-users/{id}/threads', { params: { path: { id }, query: { limit: 20 } }, signal }),
  )

function Threads({ id }: { id: string }) {
  const threads = useQuery(threadsQuery(id))
  const orgPath = useOrgPath()
  return (
    <Part title={t.threads}>
      <Loaded query={threads}>
        {(data) =>
          data.threads.length === 0 ? (
            <p className="text-muted">{t.noThreads}</p>
          ) : (
            <>
              <ul className="rounded-control border border-line">
                {data.threads.map((thread) => (
                  <li
                    key={thread.id}
                    className="flex items-center gap-2 border-t border-line px-3 py-2 first:border-t-0"
                  >
                    <Link
                      to={orgPath(`threads/${thread.id}`)}
                      className="min-w-0 flex-1 truncate font-[550] hover:underline"
                    >
                      {thread.title ?? t.untitled}
                    </Link>
                    {thread.status !== 'regular' && <Badge>{t.statuses[thread.status]}</Badge>}
                    <span className="text-sm whitespace-nowrap text-muted">
                      {t.messages(thread.message_count, formatNumber(thread.message_count))}
                    </span>
                    <span className="hidden text-sm whitespace-nowrap text-muted sm:block">
                      <Ago at={thread.last_message_at ?? thread.created_at} />
                    </span>
                  </li>
                ))}
              </ul>
              {data.total > data.threads.length && (
                <p className="mt-1 text-sm text-muted">{t.total(formatNumber(data.total))}</p>
              )}
            </>
          )
        }
      </Loaded>
    </Part>
  )
}

/** Everything that is stored about the end user, for a user who asks for it. */
function Export({ id }: { id: string }) {
  const save = useMutation({
    async mutationFn() {
      const text = await unwrap(api.GET('/end-users/{id}/export', { params: { path: { id } }, parseAs: 'text' }))
      saveFile(`end-user-${id}.jsonl`, 'application/jsonl', text as string)
    },
    onSuccess: () => notify(t.exported),
    onError: (error) => notifyError(t.exportFailed, error),
  })
  return (
    <Button icon={Download} isPending={save.isPending} onClick={() => save.mutate()}>
      {t.export}
    </Button>
  )
}

function Erase({ id, name, onDone }: { id: string; name: string; onDone: () => void }) {
  const [isOpen, setOpen] = useState(false)
  const queries = useQueryClient()
  const erase = useMutation({
    mutationFn: () => unwrap(api.DELETE('/end-users/{id}', { params: { path: { id } } })),
    onSuccess() {
      setOpen(false)
      onDone()
      notify(t.erased(name))
      queries.removeQueries({ queryKey: ['end-users', 'one', id] })
      for (const key of ['end-users', 'threads', 'usage']) void queries.invalidateQueries({ queryKey: [key] })
    },
  })
  return (
    <>
      <Button icon={Trash2} className="text-danger" onClick={() => setOpen(true)}>
        {t.erase}
      </Button>
      <ConfirmDialog
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        title={t.eraseTitle(name)}
        text={t.eraseText}
        action={t.erase}
        typed={name}
        isPending={erase.isPending}
        error={erase.error}
        onConfirm={() => erase.mutate()}
      />
    </>
  )
}
