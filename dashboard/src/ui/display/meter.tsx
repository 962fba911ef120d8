/** How much of a limit is used. Brass from 80 % on, red when it's reached; words beside it must say the same. */
export function Meter({
  label,
  value,
  limit,
  reserved = 0,
  text,
}: {
  label: string
  value: number
  limit: number
  /** Held for what is still running. */
  reserved?: number
  /** The value in words, for screen readers. */
  text: string
}) {
  const part = (amount: number) => `${limit > 0 ? Math.min(100, (amount / limit) * 100) : 100}%`
  const share = limit > 0 ? value / limit : 1
  const color = share >= 1 ? 'bg-danger' : share >= 0.8 ? 'bg-brass' : 'bg-accent'
  return (
    // biome-ignore lint/a11y/useSemanticElements: a meter element can't show what is reserved
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={Math.max(limit, value)}
      aria-valuenow={value}
      aria-valuetext={text}
      className="relative h-1.5 overflow-hidden rounded-full bg-line"
    >
      <div className={`absolute inset-y-0 left-0 opacity-40 ${color}`} style={{ width: part(value + reserved) }} />
      <div className={`absolute inset-y-0 left-0 rounded-full ${color}`} style={{ width: part(value) }} />
    </div>
  )
}
