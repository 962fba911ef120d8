import type { JSX } from 'preact'

/** Paths of Lucide (ISC license), 24 × 24. */
const paths = {
  activity:
    'M22 12h-2.48a2 2 0 0 0-1.93 1.46l-2.35 8.36a.25.25 0 0 1-.48 0L9.24 2.18a.25.25 0 0 0-.48 0l-2.35 8.36A2 2 0 0 1 4.49 12H2',
  alert: 'M22 12a10 10 0 1 1-20 0 10 10 0 0 1 20 0zM12 8v4M12 16h.01',
  archive:
    'M3 3h18a1 1 0 0 1 1 1v3a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zM4 8v11a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2V8M10 12h4',
  back: 'm12 19-7-7 7-7M19 12H5',
  ban: 'M22 12a10 10 0 1 1-20 0 10 10 0 0 1 20 0zM4.93 4.93l14.14 14.14',
  check: 'M20 6 9 17l-5-5',
  chevron: 'm6 9 6 6 6-6',
  clock: 'M22 12a10 10 0 1 1-20 0 10 10 0 0 1 20 0zM12 6v6l4 2',
  compose:
    'M12 3H5a2 2 0 0 0-2 2v14a2 2 0 0 0 2 2h14a2 2 0 0 0 2-2v-7M18.375 2.625a1 1 0 0 1 3 3l-9.013 9.014a2 2 0 0 1-.853.505l-2.873.84a.5.5 0 0 1-.62-.62l.84-2.873a2 2 0 0 1 .506-.852z',
  copy: 'M10 8h10a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H10a2 2 0 0 1-2-2V10a2 2 0 0 1 2-2zM4 16c-1.1 0-2-.9-2-2V4c0-1.1.9-2 2-2h10c1.1 0 2 .9 2 2',
  cross: 'M18 6 6 18M6 6l12 12',
  down: 'M12 5v14M19 12l-7 7-7-7',
  history: 'M3 12a9 9 0 1 0 9-9 9.75 9.75 0 0 0-6.74 2.74L3 8M3 3v5h5M12 7v5l4 2',
  pencil:
    'M21.174 6.812a1 1 0 0 0-3.986-3.987L3.842 16.174a2 2 0 0 0-.5.83l-1.321 4.352a.5.5 0 0 0 .623.622l4.353-1.32a2 2 0 0 0 .83-.497zM15 5l4 4',
  repeat: 'M21 12a9 9 0 1 1-9-9c2.52 0 4.93 1 6.74 2.74L21 8M21 3v5h-5',
  restore:
    'M3 3h18a1 1 0 0 1 1 1v3a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zM4 8v11a2 2 0 0 0 2 2h2M20 8v11a2 2 0 0 1-2 2h-2M9 15l3-3 3 3M12 12v9',
  search: 'm21 21-4.34-4.34M19 11a8 8 0 1 1-16 0 8 8 0 0 1 16 0z',
  stop: 'M7 7h10v10H7z',
  thumbDown:
    'M17 14V2M9 18.12 10 14H4.17a2 2 0 0 1-1.92-2.56l2.33-8A2 2 0 0 1 6.5 2H20a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-2.76a2 2 0 0 0-1.79 1.11L12 22a3.13 3.13 0 0 1-3-3.88Z',
  thumbUp:
    'M7 10v12M15 5.88 14 10h5.83a2 2 0 0 1 1.92 2.56l-2.33 8A2 2 0 0 1 17.5 22H4a2 2 0 0 1-2-2v-8a2 2 0 0 1 2-2h2.76a2 2 0 0 0 1.79-1.11L12 2a3.13 3.13 0 0 1 3 3.88Z',
  trash: 'M3 6h18M19 6v14a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V6M8 6V4a2 2 0 0 1 2-2h4a2 2 0 0 1 2 2v2M10 11v6M14 11v6',
  up: 'm5 12 7-7 7 7M12 19V5',
} as const

export type IconName = keyof typeof paths

export const Icon = ({ name }: { name: IconName }): JSX.Element => (
  <svg class={`icon icon-${name}`} viewBox="0 0 24 24" aria-hidden="true">
    <path d={paths[name]} />
  </svg>
)

interface IconButtonProps {
  icon: IconName
  label: string
  onClick(): void
  isPressed?: boolean | undefined
  class?: string
}

export const IconButton = ({ icon, label, onClick, isPressed, class: more = '' }: IconButtonProps): JSX.Element => (
  <button
    type="button"
    class={`icon-button ${more}`}
    aria-label={label}
    title={label}
    aria-pressed={isPressed}
    onClick={onClick}
  >
    <Icon name={icon} />
  </button>
)

/** Inlay's mark: a diamond of brass in verdigris. */
export const Mark = (): JSX.Element => (
  <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
    <rect class="mark-ground" x="1.5" y="1.5" width="21" height="21" rx="6" />
    <path class="mark-brass" d="M12 4.5 19.5 12 12 19.5 4.5 12Z" />
    <path class="mark-ground" d="M12 8.2 15.8 12 12 15.8 8.2 12Z" />
  </svg>
)

/** A pattern of the mark's diamonds, for empty states. */
export const Inlaid = (): JSX.Element => (
  <svg class="inlaid" viewBox="0 0 120 48" aria-hidden="true">
    {diamonds.map(([x, y, size, kind]) => (
      <path
        key={`${x} ${y} ${size}`}
        class={`diamond-${kind}`}
        d={`M${x} ${y - size}L${x + size} ${y}L${x} ${y + size}L${x - size} ${y}Z`}
      />
    ))}
  </svg>
)

const diamonds = [
  [60, 24, 20, 'accent'],
  [60, 24, 13, 'brass'],
  [60, 24, 6, 'accent'],
  [34, 24, 11, 'outline'],
  [86, 24, 11, 'outline'],
  [34, 24, 4, 'brass'],
  [86, 24, 4, 'brass'],
  [14, 24, 6, 'soft'],
  [106, 24, 6, 'soft'],
  [46, 8, 3, 'soft'],
  [74, 8, 3, 'soft'],
  [46, 40, 3, 'soft'],
  [74, 40, 3, 'soft'],
] as const
