import type { components } from '@inlay/client'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { EyeOff, ThumbsDown, ThumbsUp } from 'lucide-react'
import { readRange } from '../../lib/date-range.ts'
import { useFilters } from '../../lib/filters.ts'
import { texts } from '../../lib/texts.ts'
import { api, unwrap } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { AdminsOnly } from '../../ui/admins-only.tsx'
import { Button, buttonClass } from '../../ui/button.tsx'
import { Select } from '../../ui/form.tsx'
import { Badge, Notice, PageHeader } from '../../ui/layout.tsx'
import { EmptyState, ErrorState, Skeleton } from '../../ui/states.tsx'
import { Ago } from '../../ui/time.tsx'
import { words } from '../../ui/words.ts'

const t = texts({
  en: {
    title: 'Feedback',
    text: 'What users think of your agent’s answers. Start with the ones that didn’t help.',
    rating: 'Rating',
    ratings: { '': 'All ratings', down: 'Not helpful', up: 'Helpful' },
    since: 'Period',
    periods: { '': 'Any time', '7': 'Last 7 days', '30': 'Last 30 days', '90': 'Last 90 days' },
    none: 'No feedback yet',
    noneText: 'Users can rate each answer in the widget. Their ratings and comments appear here.',
    visitor: 'Anonymous visitor',
    noComment: 'No comment',
    hiddenComment: 'Comment hidden',
    hidden: 'Your organization hides what conversations say, so you only see ratings.',
    show: 'Change this in the agent’s settings',
    open: 'Open thread',
    onlyThread: 'Only one thread’s feedback is shown.',
    showAll: 'Show all feedback',
  },
  de: {
    title: 'Feedback',
    text: 'Was Nutzer von den Antworten Ihres Agenten halten. Beginnen Sie mit denen, die nicht halfen.',
    rating: 'Bewertung',
    ratings: { '': 'Alle Bewertungen', down: 'Nicht hilfreich', up: 'Hilfreich' },
    since: 'Zeitraum',
    periods: { '': 'Jederzeit', '7': 'Letzte 7 Tage', '30': 'Letzte 30 Tage', '90': 'Letzte 90 Tage' },
    none: 'Noch kein Feedback',
    noneText: 'Nutzer können jede Antwort im Widget bewerten. Ihre Bewertungen und Kommentare erscheinen hier.',
    visitor: 'Anonymer Besucher',
    noComment: 'Kein Kommentar',
    hiddenComment: 'Kommentar verborgen',
    hidden: 'Ihre Organisation verbirgt, was in Gesprächen steht. Deshalb sehen Sie nur Bewertungen.',
    show: 'In den Einstellungen des Agenten ändern',
    open: 'Unterhaltung öffnen',
    onlyThread: 'Nur das Feedback einer Unterhaltung wird gezeigt.',
    showAll: 'Alles Feedback zeigen',
  },
})

type Rating = keyof typeof t.ratings
type Period = keyof typeof t.periods
type Entry = components['schemas']['Feedback']

const defaults = { rating: '', since: '', thread: '' }

export default function Feedback() {
  const { isAdmin } = useOrganization()
  return (
    <>
      <PageHeader title={t.title} text={t.text} />
      {isAdmin ? <Queue /> : <AdminsOnly />}
    </>
  )
}

function Queue() {
  const [filters, setFilters] = useFilters(defaults)
  const orgPath = useOrgPath()
  const rating = filters.rating in t.ratings ? (filters.rating as Rating) : ''
  const since = filters.since in t.periods ? (filters.since as Period) : ''
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['feedback', { rating, since, thread: filters.thread }],
    initialPageParam: undefined as string | undefined,
    queryFn({ pageParam, signal }) {
      const query = {
        limit: 50,
        ...(rating && { rating }),
        ...(since && { since: readRange(since).start_date }),
        ...(filters.thread && { thread_id: filters.thread }),
        ...(pageParam && { cursor: pageParam }),
      }
      return unwrap(api.GET('/feedback', { params: { query }, signal }))
    },
    getNextPageParam: (page) => page.next_cursor ?? undefined,
  })
  const entries = data?.pages.flatMap((page) => page.feedback)
  const isVisible = data?.pages[0]?.contents_visible ?? true
  const isFiltered = rating !== '' || since !== '' || filters.thread !== ''
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <Select
          aria-label={t.rating}
          value={rating}
          options={Object.entries(t.ratings) as [Rating, string][]}
          onValue={(next) => setFilters({ rating: next })}
        />
        <Select
          aria-label={t.since}
          value={since}
          // Numbers come first in objects, whatever the order they're written in.
          options={(['', '7', '30', '90'] as const).map((period) => [period, t.periods[period]] as const)}
          onValue={(next) => setFilters({ since: next })}
        />
      </div>
      {filters.thread && (
        <Notice>
          {t.onlyThread}{' '}
          <button type="button" className="link underline" onClick={() => setFilters({ thread: '' })}>
            {t.showAll}
          </button>
        </Notice>
      )}
      {!isVisible && (
        <Notice icon={EyeOff}>
          {t.hidden}{' '}
          <Link to={orgPath('agent')} className="link underline">
            {t.show}
          </Link>
        </Notice>
      )}
      {error && !data && <ErrorState error={error} onRetry={() => refetch()} />}
      {!error && !data && <Skeleton lines={6} />}
      {entries?.length === 0 && (
        <div className="card">
          {isFiltered ? (
            <EmptyState
              title={words.nothingFound}
              text={words.nothingFoundText}
              action={<Button onClick={() => setFilters(defaults)}>{words.clear}</Button>}
            />
          ) : (
            <EmptyState title={t.none} text={t.noneText} />
          )}
        </div>
      )}
      {entries && entries.length > 0 && (
        <ul className="card" aria-label={t.title}>
          {entries.map((entry) => (
            <FeedbackItem key={entry.message_id} entry={entry} isVisible={isVisible} />
          ))}
        </ul>
      )}
      {hasNextPage && (
        <div className="mt-4 text-center">
          <Button isPending={isFetchingNextPage} onClick={() => fetchNextPage()}>
            {words.more}
          </Button>
        </div>
      )}
    </>
  )
}

function FeedbackItem({ entry, isVisible }: { entry: Entry; isVisible: boolean }) {
  const { rating, comment, end_user_id, end_user_name, thread_id, updated_at } = entry
  const orgPath = useOrgPath()
  return (
    <li className="grid gap-2 border-t border-line p-4 first:border-t-0 sm:grid-cols-[9rem_minmax(0,1fr)_auto] sm:items-start sm:gap-4">
      <div>
        <Badge tone={rating === 'up' ? 'good' : 'wait'} icon={rating === 'up' ? ThumbsUp : ThumbsDown}>
          {t.ratings[rating]}
        </Badge>
      </div>
      <div className="min-w-0">
        {comment ? (
          <p className="whitespace-pre-wrap wrap-anywhere">{comment}</p>
        ) : (
          <p className="text-faint italic">{isVisible ? t.noComment : t.hiddenComment}</p>
        )}
        <p className="mt-1 text-sm text-muted">
          {end_user_id ? (
            <Link to={orgPath(`end-users/${end_user_id}`)} className="hover:underline">
              {end_user_name}
            </Link>
          ) : (
            t.visitor
          )}{' '}
          · <Ago at={updated_at} />
        </p>
      </div>
      <Link to={orgPath(`threads/${thread_id}`)} className={`${buttonClass()} justify-self-start`}>
        {t.open}
      </Link>
    </li>
  )
}
