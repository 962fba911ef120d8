import { type ReactNode, useId } from 'react'

/** Chooses one of a few, all in view. */
export function Segments<Value extends string>({
  label,
  value,
  options,
  onValue,
  disabled,
}: {
  label: string
  value: Value
  options: readonly (readonly [value: Value, name: string])[]
  onValue: (value: Value) => void
  disabled?: boolean
}) {
  const name = useId()
  return (
    <div
      role="radiogroup"
      aria-label={label}
      className="inline-flex max-w-full flex-wrap gap-0.5 rounded-control bg-sunken p-0.5"
    >
      {options.map(([option, text]) => (
        <label
          key={option}
          className="relative cursor-pointer rounded-md px-2.5 py-1 text-sm text-muted hover:text-text has-checked:bg-surface has-checked:font-[550] has-checked:text-text has-checked:shadow-[0_0_0_1px_var(--line-strong)] has-focus-visible:outline-2 has-focus-visible:outline-accent"
        >
          <input
            type="radio"
            name={name}
            className="absolute inset-0 cursor-pointer appearance-none rounded-md outline-none"
            checked={value === option}
            disabled={disabled}
            onChange={() => onValue(option)}
          />
          {text}
        </label>
      ))}
    </div>
  )
}

/** One of a few that need an explanation. */
export function ChoiceCards<Value extends string>({
  label,
  value,
  options,
  onValue,
  disabled,
}: {
  label: string
  value: Value
  options: readonly { value: Value; name: string; text: ReactNode }[]
  onValue: (value: Value) => void
  disabled?: boolean
}) {
  const name = useId()
  return (
    <div role="radiogroup" aria-label={label} className="grid gap-2 sm:grid-cols-2">
      {options.map((option) => (
        <label
          key={option.value}
          className="flex cursor-pointer gap-2.5 rounded-control border border-line-strong p-3 has-checked:border-accent has-checked:bg-accent-soft has-focus-visible:outline-2 has-focus-visible:outline-accent"
        >
          <input
            type="radio"
            name={name}
            className="mt-0.5 size-4 shrink-0 accent-(--accent)"
            checked={value === option.value}
            disabled={disabled}
            onChange={() => onValue(option.value)}
          />
          <span className="min-w-0">
            <span className="block font-[550]">{option.name}</span>
            <span className="block text-sm text-muted">{option.text}</span>
          </span>
        </label>
      ))}
    </div>
  )
}
