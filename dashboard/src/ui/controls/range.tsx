import { readRange } from '../../lib/date-range.ts'
import { texts } from '../../lib/texts.ts'
import { Input, Select } from './form.tsx'

export const t = texts('range', {
  range: 'Period',
  days: (count: number) => `Last ${count} days`,
  custom: 'Other dates…',
  from: 'From',
  to: 'To',
})

const presets = ['7', '30', '90', '365']

export function RangePicker({ value, onValue }: { value: string; onValue: (value: string) => void }) {
  const isCustom = !presets.includes(value)
  const { start_date, end_date } = readRange(value)
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Select
        aria-label={t.range}
        value={isCustom ? 'custom' : value}
        options={[...presets.map((days) => [days, t.days(Number(days))] as const), ['custom', t.custom]]}
        onValue={(next) => onValue(next === 'custom' ? `${start_date}_${end_date}` : next)}
      />
      {isCustom && (
        <>
          <Input
            type="date"
            aria-label={t.from}
            className="w-auto"
            value={start_date}
            max={end_date}
            onChange={({ target }) =>
              target.value && onValue(`${target.value}_${end_date < target.value ? target.value : end_date}`)
            }
          />
          <Input
            type="date"
            aria-label={t.to}
            className="w-auto"
            value={end_date}
            min={start_date}
            onChange={({ target }) =>
              target.value && onValue(`${start_date > target.value ? target.value : start_date}_${target.value}`)
            }
          />
        </>
      )}
    </div>
  )
}
