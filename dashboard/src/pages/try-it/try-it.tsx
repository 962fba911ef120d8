import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { MessageSquarePlus, RotateCcw, Sparkles, TriangleAlert } from 'lucide-react'
import { useEffect, useEffectEvent, useState, useSyncExternalStore } from 'react'
import { useFilters } from '../../lib/filters.ts'
import { keysQuery } from '../../session/lists.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button, buttonClass } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { Select } from '../../ui/controls/form.tsx'
import { Notice, PageHeader } from '../../ui/display/layout.tsx'
import { describeError, EmptyState, Loaded } from '../../ui/display/states.tsx'
import { words } from '../../ui/words.ts'
import { LiveTrace } from './live-trace.tsx'
import { type Preview, usePreview, WidgetError } from './preview.ts'
import { t } from './texts.ts'

/** Chat and trace beside each other. On smaller screens, they are two views. */
const wide = matchMedia('(min-width: 64rem)')
const subscribe = (listener: () => void) => {
  wide.addEventListener('change', listener)
  return () => wide.removeEventListener('change', listener)
}

export default function TryIt() {
  const keys = useQuery(keysQuery)
  const [filters, setFilters] = useFilters({ key: '', view: 'chat', inlay_connect: '' })
  const [visit, setVisit] = useState(0)
  if (!keys.data)
    return (
      <>
        <PageHeader title={t.title} text={t.text} />
        <Loaded query={keys} lines={8}>
          {() => null}
        </Loaded>
      </>
    )
  const usable = keys.data.filter(({ revoked_at, can_reveal }) => !revoked_at && can_reveal)
  const key = usable.find(({ id }) => id === filters.key) ?? usable[0]
  if (!key) return <NoKey />
  return (
    <Trial
      key={`${key.id} ${visit}`}
      keyId={key.id}
      keys={usable}
      code={filters.inlay_connect}
      onCodeTaken={() => setFilters({ inlay_connect: '' })}
      view={filters.view === 'trace' ? 'trace' : 'chat'}
      onView={(view) => setFilters({ view })}
      onKey={(id) => setFilters({ key: id })}
      onReset={() => setVisit(visit + 1)}
    />
  )
}

function NoKey() {
  const { isAdmin } = useOrganization()
  const orgPath = useOrgPath()
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      <div className="card">
        <EmptyState
          title={t.noKey}
          text={isAdmin ? t.noKeyText : `${t.noKeyText} ${t.askAdmin}`}
          action={
            isAdmin && (
              <Link to={orgPath('keys')} search={{ create: 'yes' } as never} className={buttonClass('primary')}>
                {t.createKey}
              </Link>
            )
          }
        />
      </div>
    </>
  )
}

type View = 'chat' | 'trace'

function Trial({
  keyId,
  keys,
  code,
  onCodeTaken,
  view,
  onView,
  onKey,
  onReset,
}: {
  keyId: string
  keys: readonly { id: string; name: string }[]
  /** The user is back from a third party, where they connected their account. The widget completes it with this code. */
  code: string
  onCodeTaken: () => void
  view: View
  onView: (view: View) => void
  onKey: (id: string) => void
  onReset: () => void
}) {
  const { frame, preview, error, threadId, messageId, send, newThread, retry } = usePreview(keyId)
  const { slug } = useOrganization()
  const [source] = useState(() => {
    const query = { organization: slug, key: keyId, ...(code && { inlay_connect: code }) }
    return `/preview?${new URLSearchParams(query)}`
  })
  const takeCode = useEffectEvent(() => code && onCodeTaken())
  // It works once, so it doesn't stay in the URL.
  useEffect(() => void takeCode(), [])
  const isWide = useSyncExternalStore(subscribe, () => wide.matches)
  return (
    <>
      <PageHeader
        title={t.title}
        text={t.text}
        actions={
          <>
            {keys.length > 1 && (
              <Select
                aria-label={t.key}
                className="w-auto max-w-56"
                value={keyId}
                options={keys.map(({ id, name }) => [id, name] as const)}
                onValue={onKey}
              />
            )}
            <Button icon={RotateCcw} title={t.resetHint} onClick={onReset}>
              {t.reset}
            </Button>
            <Button icon={MessageSquarePlus} variant="primary" onClick={newThread}>
              {t.newThread}
            </Button>
          </>
        }
      />
      {error && (
        <Notice tone="bad" icon={TriangleAlert}>
          <p role="alert">
            {t.failed}: {error instanceof WidgetError ? error.message : describeError(error)}
          </p>
          <button type="button" className="link underline" onClick={retry}>
            {words.retry}
          </button>
        </Notice>
      )}
      {preview && <ModelInUse model={preview.model} />}
      {!isWide && (
        <div className="mb-3">
          <Segments
            label={t.view}
            value={view}
            options={[
              ['chat', t.chat],
              ['trace', t.trace],
            ]}
            onValue={onView}
          />
        </div>
      )}
      <div className="grid items-start gap-3 lg:grid-cols-[minmax(0,1fr)_minmax(0,26rem)]">
        <iframe
          ref={frame}
          src={source}
          title={t.preview}
          className={`card h-[max(26rem,calc(100dvh-22rem))] w-full lg:sticky lg:h-[max(32rem,calc(100dvh-13rem))] lg:top-16 ${isWide || view === 'chat' ? '' : 'hidden'}`}
        />
        {(isWide || view === 'trace') && (
          <LiveTrace
            threadId={threadId}
            messageId={messageId}
            isReady={preview !== undefined}
            onPrompt={(text) => {
              onView('chat')
              send(text)
            }}
          />
        )}
      </div>
    </>
  )
}

function ModelInUse({ model: { source, name } }: Pick<Preview, 'model'>) {
  const { isAdmin } = useOrganization()
  const orgPath = useOrgPath()
  if (source !== 'demo' && source !== 'none') return <p className="mb-3 text-sm text-muted">{t.model(name ?? '')}</p>
  return (
    <Notice tone={source === 'none' ? 'bad' : 'wait'} icon={source === 'none' ? TriangleAlert : Sparkles}>
      {source === 'none' ? t.noModel : t.demo}{' '}
      {isAdmin && (
        <Link to={orgPath('agent')} className="link underline">
          {t.chooseModel}
        </Link>
      )}
    </Notice>
  )
}
