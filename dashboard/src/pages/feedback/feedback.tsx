import type { components } from '@inlay/client'
import { useInfiniteQuery, useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, EyeOff, ThumbsDown, ThumbsUp } from 'lucide-react'
import { type KeyboardEvent, useState } from 'react'
import { readRange } from '../../lib/date-range.ts'
import { useFilters } from '../../lib/filters.ts'
import { texts } from '../../lib/texts.ts'
import { api, queryClient, unwrap } from '../../session/api.ts'
import { useOrganization, useOrgPath } from '../../session/me.ts'
import { Button, buttonClass } from '../../ui/controls/button.tsx'
import { Segments } from '../../ui/controls/choice.tsx'
import { Select } from '../../ui/controls/form.tsx'
import { AdminsOnly } from '../../ui/display/admins-only.tsx'
import { Badge, Notice, PageHeader } from '../../ui/display/layout.tsx'
import { EmptyState, ErrorState, Skeleton } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { endUserName } from '../../ui/end-user-name.ts'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'

export const t = texts('feedback', {
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
  state: 'State',
  states: { '': 'Unreviewed', reviewed: 'Reviewed', all: 'All' },
  done: 'Nothing to review',
  doneText: 'Users can rate each answer in the widget. Ratings and comments wait here until you mark them as reviewed.',
  review: 'Mark as reviewed',
  unreview: 'Mark as unreviewed',
  wasReviewed: (count: number) => (count === 1 ? 'Marked as reviewed' : `${count} entries marked as reviewed`),
  wasUnreviewed: (count: number) => (count === 1 ? 'Marked as unreviewed' : `${count} entries marked as unreviewed`),
  failed: 'Not everything could be marked',
  reviewedBy: (name: string) => `Reviewed by ${name}`,
  selectAll: 'Select all that are shown',
  select: 'Select this feedback',
  selected: (count: number) => `${count} selected`,
})

type Rating = keyof typeof t.ratings
type Period = keyof typeof t.periods
type Entry = components['schemas']['Feedback']

type State = keyof typeof t.states

const defaults = { state: '', rating: '', since: '', thread: '' }

/** Marks entries, one request for each. What succeeded can be undone in the message that says so. */
async function mark(ids: readonly string[], reviewed: boolean): Promise<void> {
  const results = await Promise.allSettled(
    ids.map((id) => unwrap(api.PATCH('/feedback/{id}', { params: { path: { id } }, body: { reviewed } }))),
  )
  const done = ids.filter((_, index) => results[index]?.status === 'fulfilled')
  const failure = results.find((result) => result.status === 'rejected')
  const title = reviewed ? t.wasReviewed(done.length) : t.wasUnreviewed(done.length)
  if (done.length > 0) notify(title, { undo: () => void mark(done, !reviewed) })
  if (failure) notifyError(t.failed, failure.reason)
  await queryClient.invalidateQueries({ queryKey: ['feedback'] })
}

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
  const state = filters.state in t.states ? (filters.state as State) : ''
  const [selection, setSelection] = useState<ReadonlySet<string>>(new Set())
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['feedback', { state, rating, since, thread: filters.thread }],
    initialPageParam: undefined as string | undefined,
    queryFn({ pageParam, signal }) {
      const query = {
        limit: 50,
        ...(state !== 'all' && { reviewed: state === 'reviewed' ? ('true' as const) : ('false' as const) }),
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
  const selected = entries?.filter(({ message_id }) => selection.has(message_id)) ?? []
  // Marks the opposite of what all of them are, so the same action undoes itself.
  const isReviewing = (some: readonly Entry[]) => some.some(({ reviewed_at }) => reviewed_at === null)
  const marking = useMutation({
    mutationFn: (some: readonly Entry[]) => mark(idsOf(some), isReviewing(some)),
    onSuccess: () => setSelection(new Set()),
  })
  const toggle = (id: string, isSelected: boolean) => {
    const next = new Set(selection)
    if (isSelected) next.add(id)
    else next.delete(id)
    setSelection(next)
  }
  const isFiltered = rating !== '' || since !== '' || filters.thread !== ''
  return (
    <>
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <Segments
          label={t.state}
          value={state}
          options={(['', 'reviewed', 'all'] as const).map((one) => [one, t.states[one]] as const)}
          onValue={(next) => setFilters({ state: next })}
        />
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
            <EmptyState
              title={state === '' ? t.done : t.none}
              text={state === '' ? t.doneText : t.noneText}
              {...(state !== 'all' && {
                action: <Button onClick={() => setFilters({ state: 'all' })}>{t.showAll}</Button>,
              })}
            />
          )}
        </div>
      )}
      {entries && entries.length > 0 && (
        <>
          <div className="mb-2 flex min-h-8 flex-wrap items-center gap-3">
            <label className="flex items-center gap-2 text-sm text-muted">
              <input
                type="checkbox"
                className="size-4 accent-(--accent)"
                checked={selected.length === entries.length}
                onChange={(event) => setSelection(new Set(event.target.checked ? idsOf(entries) : []))}
              />
              {selected.length > 0 ? t.selected(selected.length) : t.selectAll}
            </label>
            {selected.length > 0 && (
              <Button icon={Check} isPending={marking.isPending} onClick={() => marking.mutate(selected)}>
                {isReviewing(selected) ? t.review : t.unreview}
              </Button>
            )}
          </div>
          <ul className="card" aria-label={t.title} onKeyDown={moveBetweenEntries}>
            {entries.map((entry) => (
              <FeedbackItem
                key={entry.message_id}
                entry={entry}
                isVisible={isVisible}
                isSelected={selection.has(entry.message_id)}
                onSelect={(isSelected) => toggle(entry.message_id, isSelected)}
                isPending={marking.isPending && marking.variables.includes(entry)}
                onMark={() => marking.mutate([entry])}
              />
            ))}
          </ul>
        </>
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

const idsOf = (entries: readonly Entry[]) => entries.map(({ message_id }) => message_id)

/** The arrow keys move between the entries' checkboxes. Space selects one, as in any form. */
function moveBetweenEntries(event: KeyboardEvent<HTMLUListElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  const boxes = [...event.currentTarget.querySelectorAll<HTMLInputElement>('input[type=checkbox]')]
  const current = boxes.indexOf(event.target as HTMLInputElement)
  if (!step || current < 0) return
  event.preventDefault()
  boxes[current + step]?.focus()
}

interface ItemProps {
  entry: Entry
  isVisible: boolean
  isSelected: boolean
  onSelect: (isSelected: boolean) => void
  isPending: boolean
  onMark: () => void
}

function FeedbackItem({ entry, isVisible, isSelected, onSelect, isPending, onMark }: ItemProps) {
  const { rating, comment, end_user_id, thread_id, updated_at, reviewed_at, reviewed_by } = entry
  const orgPath = useOrgPath()
  return (
    <li className="grid gap-2 border-t border-line p-4 first:border-t-0 sm:grid-cols-[10.5rem_minmax(0,1fr)_auto] sm:items-start sm:gap-4">
      <div className="flex items-center gap-2.5">
        <input
          type="checkbox"
          aria-label={t.select}
          className="size-4 accent-(--accent)"
          checked={isSelected}
          onChange={(event) => onSelect(event.target.checked)}
        />
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
        <p className="mt-1 text-sm text-muted wrap-anywhere">
          {end_user_id ? (
            <Link to={orgPath(`end-users/${end_user_id}`)} className="hover:underline">
              {endUserName(entry)}
            </Link>
          ) : (
            t.visitor
          )}{' '}
          · <Ago at={updated_at} />
          {reviewed_by && reviewed_at && (
            <>
              {' '}
              · {t.reviewedBy(reviewed_by)}, <Ago at={reviewed_at} />
            </>
          )}
        </p>
      </div>
      <div className="flex flex-wrap gap-2">
        <Button isPending={isPending} onClick={onMark}>
          {reviewed_at ? t.unreview : t.review}
        </Button>
        <Link to={orgPath(`threads/${thread_id}`)} className={buttonClass()}>
          {t.open}
        </Link>
      </div>
    </li>
  )
}
