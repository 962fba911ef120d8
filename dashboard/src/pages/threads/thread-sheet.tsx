import { useMutation, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Archive, ArchiveRestore, ChevronDown, Download, Eye, EyeOff, Trash2 } from 'lucide-react'
import { saveFile } from '../../lib/files.ts'
import { useFilters } from '../../lib/filters.ts'
import { formatNumber } from '../../lib/format.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { sitesQuery } from '../../session/lists.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Switch } from '../../ui/controls/form.tsx'
import { Badge, Facts, Notice } from '../../ui/display/layout.tsx'
import { ErrorState, Loaded, Skeleton } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { endUserName } from '../../ui/end-user-name.ts'
import { Menu } from '../../ui/overlays/menu.tsx'
import { Sheet } from '../../ui/overlays/overlays.tsx'
import { notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'
import { type Thread, useThreadMessages, useThreadStatus } from './thread-data.ts'
import { MessageItem } from './trace.tsx'

const threadQuery = (id: string) =>
  read(['threads', 'one', id], (signal) => api.GET('/threads/{id}', { params: { path: { id } }, signal }))

export function ThreadSheet({ id, isOpen, onClose }: { id: string; isOpen: boolean; onClose: () => void }) {
  const thread = useQuery(threadQuery(id))
  return (
    <Sheet isWide isOpen={isOpen} onClose={onClose} title={thread.data?.title ?? t.untitled}>
      <Loaded query={thread} lines={6}>
        {(data) => <ThreadDetails thread={data} onClose={onClose} />}
      </Loaded>
    </Sheet>
  )
}

function ThreadDetails({ thread, onClose }: { thread: Thread; onClose: () => void }) {
  const { end_user_id, site_id, status, message_count, total_tokens, created_at } = thread
  const orgPath = useOrgPath()
  const { isAdmin } = useOrganization()
  const changeStatus = useThreadStatus()
  const { data: sites } = useQuery(sitesQuery)
  const setStatus = (next: Thread['status']) => changeStatus({ threads: [thread], status: next })
  const origin = sites?.find((site) => site.id === site_id)?.origin
  return (
    <>
      <div className="mb-4 flex flex-wrap gap-2">
        {status === 'regular' && (
          <Button icon={Archive} onClick={() => setStatus('archived')}>
            {t.archive}
          </Button>
        )}
        {status !== 'regular' && (
          <Button icon={ArchiveRestore} onClick={() => setStatus('regular')}>
            {t.restore}
          </Button>
        )}
        {status !== 'deleted' && (
          <Button
            variant="ghost"
            icon={Trash2}
            onClick={() => {
              setStatus('deleted')
              onClose()
            }}
          >
            {t.delete}
          </Button>
        )}
      </div>
      <Facts
        facts={[
          [
            t.endUser,
            end_user_id ? (
              <Link key="user" to={orgPath(`end-users/${end_user_id}`)} className="link">
                {endUserName(thread)}
              </Link>
            ) : (
              t.visitor
            ),
          ],
          [t.site, <span key="site">{origin ?? t.noSite}</span>],
          [t.status, <Badge key="status">{t.statuses[status]}</Badge>],
          [t.started, <Time key="started" at={created_at} />],
          [t.messages, formatNumber(message_count)],
          [t.tokens, formatNumber(total_tokens)],
          ...(isAdmin && end_user_id
            ? [
                [
                  t.toolCalls,
                  <Link key="calls" to={orgPath('tool-calls')} search={{ user: end_user_id } as never} className="link">
                    {t.records}
                  </Link>,
                ] as const,
              ]
            : []),
        ]}
      />
      <Messages id={thread.id} />
    </>
  )
}

/** The conversation as a file. Only available where contents are visible. */
function Export({ id }: { id: string }) {
  const save = useMutation({
    async mutationFn(format: 'json' | 'markdown') {
      const params = { path: { id }, query: { format } }
      const text = await unwrap(api.GET('/threads/{id}/export', { params, parseAs: 'text' }))
      const [end, type] = format === 'json' ? ['json', 'application/json'] : ['md', 'text/markdown']
      saveFile(`thread-${id}.${end}`, type as string, text as string)
    },
    onError: (error) => notifyError(t.exportFailed, error),
  })
  return (
    <Menu
      align="start"
      trigger={{ className: 'button' }}
      entries={[
        { name: t.exportJson, onClick: () => save.mutate('json') },
        { name: t.exportMarkdown, onClick: () => save.mutate('markdown') },
      ]}
    >
      <Download size={16} strokeWidth={1.5} aria-hidden />
      {t.exportAs}
      <ChevronDown size={14} strokeWidth={1.5} aria-hidden />
    </Menu>
  )
}

function Messages({ id }: { id: string }) {
  const [filters, setFilters] = useFilters({ search: '', status: '', replaced: '' })
  const orgPath = useOrgPath()
  const { isAdmin } = useOrganization()
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useThreadMessages(id, {
    withReplaced: filters.replaced === 'yes',
  })
  if (error && !data) return <ErrorState error={error} onRetry={() => refetch()} />
  if (!data) return <Skeleton lines={8} className="mt-6" />
  const isVisible = data.pages[0]?.contents_visible ?? false
  const messages = data.pages.flatMap((page) =>
    page.messages.map((message) => ({ message, run: page.runs.get(message.id) })),
  )
  return (
    <section className="mt-5" aria-label={t.messages}>
      <Notice icon={isVisible ? Eye : EyeOff}>
        {isVisible ? t.read : t.hidden}{' '}
        {isAdmin && (
          <Link to={orgPath('agent')} className="link underline">
            {t.show}
          </Link>
        )}
      </Notice>
      <div className="mb-4 flex flex-wrap items-center justify-between gap-2">
        <Switch
          label={t.replaced}
          checked={filters.replaced === 'yes'}
          onChecked={(checked) => setFilters({ replaced: checked ? 'yes' : '' })}
        />
        {isVisible && <Export id={id} />}
      </div>
      {messages.length === 0 && <p className="text-muted">{t.empty}</p>}
      <ol className="grid gap-4">
        {messages.map(({ message, run }) => (
          <MessageItem key={message.id} message={message} run={run} isVisible={isVisible} />
        ))}
      </ol>
      {hasNextPage && (
        <div className="mt-4 text-center">
          <Button isPending={isFetchingNextPage} onClick={() => fetchNextPage()}>
            {words.more}
          </Button>
        </div>
      )}
    </section>
  )
}
