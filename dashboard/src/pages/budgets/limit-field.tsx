import { formatCompact, formatMoney, formatTime } from '../../lib/format.ts'
import { Field, Input } from '../../ui/controls/form.tsx'
import { Badge } from '../../ui/display/layout.tsx'
import { Meter } from '../../ui/display/meter.tsx'
import { isMoney, type LimitName, type Period, parseLimit } from './draft.ts'
import { t } from './texts.ts'

/** A limit, and how much of it is used now. */
export function LimitField({
  scope,
  name,
  text,
  saved,
  period,
  onText,
}: {
  scope: string
  name: LimitName
  text: string
  saved: number | null
  period: Period | undefined
  onText: (text: string) => void
}) {
  const money = isMoney(name)
  const format = money ? formatMoney : formatCompact
  const isWrong = parseLimit(name, text) === undefined
  const used = period && (money ? period.used_cost_micro_usd : period.used_tokens)
  const reserved = period && (money ? period.reserved_cost_micro_usd : period.reserved_tokens)
  const share = used !== undefined && saved !== null ? (saved > 0 ? used / saved : 1) : undefined
  return (
    <div className="grid content-start gap-2">
      <Field label={t.limits[name]} error={isWrong ? (money ? t.badMoney : t.badTokens) : undefined}>
        <div className="relative">
          <Input
            value={text}
            inputMode={money ? 'decimal' : 'numeric'}
            placeholder={t.noLimit}
            maxLength={24}
            autoComplete="off"
            className={`pr-16 ${money && text ? 'pl-6' : ''}`}
            onChange={({ target }) => onText(target.value)}
          />
          {money && text && (
            <span
              className="pointer-events-none absolute inset-y-0 left-2.5 grid place-items-center text-muted"
              aria-hidden
            >
              $
            </span>
          )}
          <span
            className="pointer-events-none absolute inset-y-0 right-2.5 grid place-items-center text-sm text-faint"
            aria-hidden
          >
            {money ? 'USD' : t.tokens}
          </span>
        </div>
      </Field>
      {period && used !== undefined && (
        <div className="grid gap-1.5">
          {saved !== null && (
            <Meter
              label={`${scope}: ${t.limits[name]}`}
              value={used}
              limit={saved}
              reserved={reserved ?? 0}
              text={t.usedOf(format(used), format(saved))}
            />
          )}
          <p className="flex flex-wrap items-center gap-x-2 text-sm text-muted">
            <span>{saved === null ? t.used(format(used)) : t.usedOf(format(used), format(saved))}</span>
            {share !== undefined && share >= 1 && <Badge tone="bad">{t.reached}</Badge>}
            {share !== undefined && share >= 0.8 && share < 1 && <Badge tone="wait">{t.nearly}</Badge>}
            <span className="text-faint sm:ml-auto">{t.resets(formatTime(period.resets_at))}</span>
          </p>
        </div>
      )}
    </div>
  )
}
