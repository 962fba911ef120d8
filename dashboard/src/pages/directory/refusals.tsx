import { useQuery } from '@tanstack/react-query'
import { Badge, Section } from '../../ui/display/layout.tsx'
import { Loaded } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { scimRefusalsQuery } from './queries.ts'
import { t } from './texts.ts'

/** What the directory sent and Inlay refused. */
export function Refusals({ directoryId }: { directoryId: string }) {
  return (
    <Section title={t.refusals} text={t.refusalsText}>
      <Loaded query={useQuery(scimRefusalsQuery(directoryId))}>
        {({ refusals }) =>
          refusals.length === 0 ? (
            <p className="text-muted">{t.noRefusals}</p>
          ) : (
            <ul className="-mb-2 text-sm">
              {refusals.map(({ id, code, step, message, count, last_at }) => (
                <li key={id} className="grid gap-1 border-t border-line py-2.5">
                  <p className="wrap-anywhere">{message}</p>
                  <p className="flex flex-wrap items-center gap-x-3 text-muted">
                    <Badge tone="bad">{code}</Badge>
                    <span className="mono">{step}</span>
                    <Ago at={last_at} />
                    {count > 1 && <span>{t.times(count)}</span>}
                  </p>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  )
}
