import { useQuery } from '@tanstack/react-query'
import { formatDuration } from '../../lib/format.ts'
import { ApiError, api, read } from '../../session/api.ts'
import { DataBlock } from '../../ui/display/code.tsx'
import { Badge, Facts, Notice } from '../../ui/display/layout.tsx'
import { EmptyState, ErrorState, Loaded, Skeleton } from '../../ui/display/states.tsx'
import { Time } from '../../ui/display/time.tsx'
import { Sheet } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { type Call, findCall, outcomeTones } from './calls.ts'
import { t } from './texts.ts'

export function CallSheet({ id, isOpen, onClose }: { id: string; isOpen: boolean; onClose: () => void }) {
  const call = useQuery({ queryKey: ['tool-calls', 'one', id], queryFn: ({ signal }) => findCall(id, signal) })
  return (
    <Sheet isOpen={isOpen} onClose={onClose} title={call.data?.tool ?? t.title}>
      <Loaded query={call} lines={8}>
        {(data) => (data ? <CallDetails call={data} /> : <EmptyState title={t.gone} text={t.notKept} />)}
      </Loaded>
    </Sheet>
  )
}

function CallDetails({ call }: { call: Call }) {
  const mono = (text: string) => <span className="mono">{text}</span>
  return (
    <>
      <Facts
        facts={[
          [
            t.outcome,
            <Badge key="outcome" tone={outcomeTones[call.outcome]}>
              {t.outcomes[call.outcome]}
            </Badge>,
          ],
          ...(call.failure_code ? [[t.failure, mono(call.failure_code)] as const] : []),
          [t.approval, t.approvals[call.approval]],
          ...(call.approval_at ? [[t.decidedAt, <Time key="decided" at={call.approval_at} />] as const] : []),
          [t.governance, t.verdicts[call.governance]],
          [t.user, call.user_email || mono(call.user_id)],
          [t.client, call.client_name ?? call.client_id ?? t.noClient],
          [
            t.source,
            call.source === null ? (
              t.notFound
            ) : (
              <span key="source">
                {mono(call.source)} {call.source_type && <Badge>{t.sourceTypes[call.source_type]}</Badge>}
              </span>
            ),
          ],
          [t.time, <Time key="time" at={call.at} />],
          [t.duration, formatDuration(call.duration_ms)],
          [t.callId, mono(call.id)],
          [t.argumentsHash, mono(call.arguments_hash)],
          [t.definitionHash, call.definition_hash ? mono(call.definition_hash) : words.none],
        ]}
      />
      <Contents id={call.id} />
    </>
  )
}

const contentsQuery = (id: string) =>
  read(['tool-calls', 'contents', id], (signal) =>
    api.GET('/tool-calls/{id}/contents', { params: { path: { id } }, signal }),
  )

function Contents({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(contentsQuery(id))
  const isMissing = error instanceof ApiError && error.status === 404
  return (
    <section className="mt-5 grid grid-cols-1 gap-3" aria-label={t.contents}>
      <h3 className="font-semibold">{t.contents}</h3>
      {isMissing && <Notice>{t.notKept}</Notice>}
      {error && !isMissing && <ErrorState error={error} onRetry={() => refetch()} />}
      {!data && !error && <Skeleton />}
      {data && (
        <>
          <DataBlock label={t.args} text={data.arguments} />
          {data.result === null ? (
            <p className="text-muted">{t.noResult}</p>
          ) : (
            <DataBlock label={t.result} text={data.result} />
          )}
          <p className="text-sm text-muted">
            {t.deletedAt} <Time at={data.expires_at} />
          </p>
        </>
      )}
    </section>
  )
}
