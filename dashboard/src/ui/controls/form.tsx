import { type ComponentProps, createContext, type ReactNode, use, useId } from 'react'
import { words } from '../words.ts'

interface FieldIds {
  id: string
  describedBy: string | undefined
  isInvalid: boolean
}

const FieldContext = createContext<FieldIds | undefined>(undefined)

/** A label with its control, a hint and an error. */
export function Field({
  label,
  hint,
  error,
  isOptional,
  isLabelHidden,
  children,
}: {
  label: string
  hint?: ReactNode
  error?: string | undefined
  isOptional?: boolean
  /** Where a heading already says the same. */
  isLabelHidden?: boolean
  children: ReactNode
}) {
  const id = useId()
  const describedBy = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined
  return (
    <FieldContext value={{ id, describedBy, isInvalid: error !== undefined }}>
      <div className="grid content-start gap-1">
        <label htmlFor={id} className={isLabelHidden ? 'sr-only' : 'text-sm font-[550]'}>
          {label} {isOptional && <span className="font-[450] text-faint">({words.optional})</span>}
        </label>
        {children}
        {hint && (
          <div id={`${id}-hint`} className="text-sm text-muted">
            {hint}
          </div>
        )}
        {error && (
          <p id={`${id}-error`} className="text-sm text-danger">
            {error}
          </p>
        )}
      </div>
    </FieldContext>
  )
}

function useFieldProps() {
  const field = use(FieldContext)
  return field && { id: field.id, 'aria-describedby': field.describedBy, 'aria-invalid': field.isInvalid || undefined }
}

export function Input({ className = '', ...rest }: ComponentProps<'input'>) {
  return <input className={`input ${className}`} {...useFieldProps()} {...rest} />
}

export function Textarea({ className = '', ...rest }: ComponentProps<'textarea'>) {
  return <textarea className={`input ${className}`} rows={4} {...useFieldProps()} {...rest} />
}

export function Select<Value extends string>({
  value,
  options,
  onValue,
  className = '',
  ...rest
}: Omit<ComponentProps<'select'>, 'value' | 'onChange'> & {
  value: Value
  options: readonly (readonly [value: Value, name: string])[]
  onValue: (value: Value) => void
}) {
  return (
    <select
      className={`input ${className}`}
      {...useFieldProps()}
      {...rest}
      value={value}
      onChange={(event) => onValue(event.target.value as Value)}
    >
      {options.map(([option, name]) => (
        <option key={option} value={option}>
          {name}
        </option>
      ))}
    </select>
  )
}

/** A setting that is on or off. */
export function Switch({
  label,
  hint,
  checked,
  onChecked,
  disabled,
}: {
  label: string
  hint?: string
  checked: boolean
  onChecked: (checked: boolean) => void
  disabled?: boolean
}) {
  const id = useId()
  return (
    <div className="flex items-start gap-3">
      <input
        id={id}
        type="checkbox"
        role="switch"
        aria-checked={checked}
        checked={checked}
        disabled={disabled}
        aria-describedby={hint && `${id}-hint`}
        onChange={(event) => onChecked(event.target.checked)}
        className="relative mt-0.5 h-4 w-7 shrink-0 cursor-pointer appearance-none rounded-full bg-line-strong transition-colors duration-150 before:absolute before:top-0.5 before:left-0.5 before:size-3 before:rounded-full before:bg-surface before:transition-transform before:duration-150 checked:bg-accent checked:before:translate-x-3 disabled:opacity-60"
      />
      <div>
        <label htmlFor={id} className="font-[550]">
          {label}
        </label>
        {hint && (
          <p id={`${id}-hint`} className="text-sm text-muted">
            {hint}
          </p>
        )}
      </div>
    </div>
  )
}
