import { TriangleAlert } from 'lucide-react'
import { formatNumber } from '../../lib/format.ts'
import { Badge, Facts, Notice } from '../../ui/display/layout.tsx'
import { Ago, Time } from '../../ui/display/time.tsx'
import type { ConnectedRepository } from './queries.ts'
import { t } from './texts.ts'

export function SyncBadge({ repository: { state, last_sync } }: { repository: ConnectedRepository }) {
  const badge = () => {
    if (state === 'syncing') return <Badge tone="wait">{t.syncing}</Badge>
    if (state === 'waiting' || !last_sync) return <Badge tone="wait">{t.waiting}</Badge>
    if (last_sync.status === 'failed') return <Badge tone="bad">{t.failed}</Badge>
    if (last_sync.status === 'retrying') return <Badge tone="wait">{t.retrying}</Badge>
    return last_sync.problems.length > 0 ? (
      <Badge tone="wait">{t.partly}</Badge>
    ) : (
      <Badge tone="good">{t.succeeded}</Badge>
    )
  }
  return <span role="status">{badge()}</span>
}

/** How the last sync went, and what has to be changed. */
export function SyncResult({ repository }: { repository: ConnectedRepository }) {
  const { last_sync: last, synced_at, synced_commit, next_sync_at, state } = repository
  if (!last) return null
  const hasSucceeded = last.status === 'succeeded'
  return (
    <div className="mt-4 border-t border-line pt-4">
      {last.problem && (
        <Notice tone={last.status === 'failed' ? 'bad' : 'wait'} icon={TriangleAlert}>
          <p>{last.problem}</p>
          <p>{t.unharmed}</p>
        </Notice>
      )}
      <Facts
        facts={[
          [t.lastSync, <Ago key="last" at={last.finished_at} />],
          ...(hasSucceeded
            ? [[t.changes, describeChanges(last)] as const]
            : [[t.lastSuccess, <Time key="ok" at={synced_at} />] as const]),
          ...(synced_commit
            ? [
                [
                  t.commit,
                  <span key="commit" className="mono">
                    {synced_commit.slice(0, 7)}
                  </span>,
                ] as const,
              ]
            : []),
          ...(state === 'idle'
            ? [
                [
                  t.next,
                  <span key="next">
                    <Time at={next_sync_at} />, {t.nextHint}
                  </span>,
                ] as const,
              ]
            : []),
        ]}
      />
      {last.problems.length > 0 && (
        <div className="mt-4">
          <h3 className="font-[550]">{t.problems(last.problems.length, formatNumber(last.problems.length))}</h3>
          <p className="text-sm text-muted">{t.problemsText}</p>
          <ul className="mt-2 grid max-h-80 gap-2 overflow-auto text-sm">
            {last.problems.map(({ path, problem }) => (
              <li key={path} className="min-w-0 wrap-anywhere">
                <span className="mono">{path}</span>
                <span className="block text-muted">{problem}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  )
}

const describeChanges = ({ created, updated, archived, unchanged }: NonNullable<ConnectedRepository['last_sync']>) =>
  [
    t.created(created, formatNumber(created)),
    t.updated(formatNumber(updated)),
    t.archived(formatNumber(archived)),
    t.unchanged(formatNumber(unchanged)),
  ].join(', ')
