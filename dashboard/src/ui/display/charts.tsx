import { useId, useState } from 'react'
import { roundUp } from '../../lib/round-up.ts'
import { words } from '../words.ts'

/** The course of a value, without axes. */
export function Sparkline({ values, tone = 'accent' }: { values: number[]; tone?: 'accent' | 'brass' }) {
  if (values.every((value) => value === 0)) return null
  const [width, height, top] = [116, 32, Math.max(...values, 1)]
  const step = width / Math.max(values.length - 1, 1)
  const points = values.map(
    (value, index) => `${(index * step).toFixed(1)},${(height - 3 - (value / top) * (height - 6)).toFixed(1)}`,
  )
  return (
    <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true" className="max-w-full">
      <polyline
        points={points.join(' ')}
        fill="none"
        strokeWidth="1.5"
        strokeLinejoin="round"
        className={tone === 'accent' ? 'stroke-accent' : 'stroke-brass'}
      />
    </svg>
  )
}

export interface Series {
  name: string
  values: number[]
}

const fills = ['fill-accent', 'fill-brass/60', 'fill-accent/45', 'fill-brass/30', 'fill-line-strong']
const dots = ['bg-accent', 'bg-brass/60', 'bg-accent/45', 'bg-brass/30', 'bg-line-strong']
/** More series than this can't be told apart, so the rest is added up. */
export const mostSeries = 5

/** Stacked bars, one per label. The same values are in a table for screen readers. */
export function BarChart({
  title,
  labels,
  series,
  format,
  formatLabel = (label) => label,
  height = 180,
}: {
  title: string
  labels: string[]
  series: Series[]
  format: (value: number) => string
  formatLabel?: (label: string) => string
  height?: number
}) {
  const [hovered, setHovered] = useState<number>()
  const id = useId()
  const totals = labels.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const isEmpty = totals.every((total) => total === 0)
  const top = roundUp(Math.max(...totals, 1))
  const width = 760
  const slot = width / Math.max(labels.length, 1)
  const barWidth = Math.max(slot - Math.min(6, slot * 0.3), 1)
  const scale = (value: number) => (value / top) * height
  const ticks =
    labels.length <= 1
      ? [0]
      : [0, Math.floor(labels.length / 3), Math.floor((labels.length * 2) / 3), labels.length - 1]
  return (
    <figure>
      <div className="relative">
        <p className="text-xs leading-5 text-faint" aria-hidden>
          {isEmpty ? ' ' : format(top)}
        </p>
        {/* Stretched to the available width, so it contains no text. */}
        <svg
          viewBox={`0 0 ${width} ${height}`}
          height={height}
          preserveAspectRatio="none"
          className="block w-full"
          role="img"
          aria-label={title}
          onPointerLeave={() => setHovered(undefined)}
        >
          {[0, 0.25, 0.5, 0.75, 1].map((part) => (
            <line
              key={part}
              x1="0"
              x2={width}
              y1={height * part}
              y2={height * part}
              className="stroke-line"
              vectorEffect="non-scaling-stroke"
            />
          ))}
          {labels.map((label, at) => {
            let y = height
            return (
              <g key={label} onPointerEnter={() => setHovered(at)}>
                <rect
                  x={at * slot}
                  y="0"
                  width={slot}
                  height={height}
                  className={hovered === at ? 'fill-sunken' : 'fill-transparent'}
                />
                {series.map(({ name, values }, place) => {
                  const size = scale(values[at] ?? 0)
                  y -= size
                  return (
                    <rect
                      key={name}
                      x={at * slot + (slot - barWidth) / 2}
                      y={y}
                      width={barWidth}
                      height={Math.max(size - 1, 0)}
                      rx={Math.min(2, barWidth / 4)}
                      className={fills[place % fills.length]}
                    />
                  )
                })}
              </g>
            )
          })}
        </svg>
        <div className="mt-1 flex justify-between text-xs text-faint" aria-hidden>
          {ticks.map((at) => (
            <span key={at}>{formatLabel(labels[at] ?? '')}</span>
          ))}
        </div>
        {isEmpty && (
          <p className="absolute inset-0 grid place-items-center text-sm text-muted">
            <span className="bg-surface px-2">{words.noValues}</span>
          </p>
        )}
        {!isEmpty && hovered !== undefined && (
          <div
            className="floating pointer-events-none absolute top-2 px-3 py-2 text-sm"
            style={
              hovered < labels.length / 2
                ? { left: `${((hovered + 1) / labels.length) * 100}%` }
                : { right: `${(1 - hovered / labels.length) * 100}%` }
            }
          >
            <p className="mb-1 font-[550]">{formatLabel(labels[hovered] ?? '')}</p>
            {series.map(({ name, values }, place) => (
              <p key={name} className="flex items-center gap-2 whitespace-nowrap">
                <i className={`size-2 rounded-xs ${dots[place % dots.length]}`} aria-hidden />
                <span className="text-muted">{name}</span>
                <span className="ml-auto pl-4">{format(values[hovered] ?? 0)}</span>
              </p>
            ))}
          </div>
        )}
      </div>
      {series.length > 1 && (
        <figcaption className="mt-2 flex flex-wrap gap-x-4 gap-y-1 text-sm text-muted" aria-hidden>
          {series.map(({ name }, place) => (
            <span key={name} className="flex items-center gap-1.5">
              <i className={`size-2 rounded-xs ${dots[place % dots.length]}`} />
              {name}
            </span>
          ))}
        </figcaption>
      )}
      <table className="sr-only" aria-labelledby={id}>
        <caption id={id}>{title}</caption>
        <thead>
          <tr>
            <th scope="col">{words.date}</th>
            {series.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {labels.map((label, at) => (
            <tr key={label}>
              <th scope="row">{formatLabel(label)}</th>
              {series.map(({ name, values }) => (
                <td key={name}>{format(values[at] ?? 0)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  )
}
