import { useId } from 'react'

/** Chooses one of a few views. The page keeps the choice in its URL. */
export function ViewSwitch<View extends string>({
  label,
  value,
  views,
  onValue,
}: {
  label: string
  value: View
  views: readonly (readonly [id: View, name: string])[]
  onValue: (view: View) => void
}) {
  const group = useId()
  return (
    <div className="flex flex-wrap gap-1" role="radiogroup" aria-label={label}>
      {views.map(([id, name]) => (
        <label
          key={id}
          className="relative cursor-pointer rounded-control px-3 py-1.5 text-muted hover:text-text has-checked:bg-accent-soft has-checked:font-[550] has-checked:text-accent has-focus-visible:outline-2 has-focus-visible:outline-accent"
        >
          <input
            type="radio"
            name={group}
            className="absolute inset-0 cursor-pointer appearance-none rounded-control outline-none"
            checked={value === id}
            onChange={() => onValue(id)}
          />
          {name}
        </label>
      ))}
    </div>
  )
}
