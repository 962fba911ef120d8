import { Check, Copy, LoaderCircle, type LucideIcon } from 'lucide-react'
import { type ComponentProps, useState } from 'react'
import { words } from '../words.ts'

type Variant = 'primary' | 'secondary' | 'ghost' | 'danger'

export const buttonClass = (variant: Variant = 'secondary'): string =>
  variant === 'secondary' ? 'button' : `button button-${variant}`

interface ButtonProps extends ComponentProps<'button'> {
  variant?: Variant
  icon?: LucideIcon
  /** Shows that the action is under way. The button keeps its focus, and ignores clicks. */
  isPending?: boolean
}

export function Button({ variant, icon: Icon, isPending, children, onClick, className = '', ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      className={`${buttonClass(variant)} ${className}`}
      aria-disabled={isPending || rest.disabled || undefined}
      onClick={isPending ? (event) => event.preventDefault() : onClick}
      {...rest}
    >
      {isPending ? (
        <LoaderCircle size={16} strokeWidth={1.5} className="animate-spin" aria-hidden />
      ) : (
        Icon && <Icon size={16} strokeWidth={1.5} aria-hidden />
      )}
      {children}
    </button>
  )
}

/** A button with an icon only. The label is its name and its tooltip. */
export function IconButton({
  icon: Icon,
  label,
  className = '',
  ...rest
}: Omit<ComponentProps<'button'>, 'children'> & { icon: LucideIcon; label: string }) {
  return (
    <button
      type="button"
      className={`button button-ghost w-8 px-0 ${className}`}
      aria-label={label}
      title={label}
      {...rest}
    >
      <Icon size={16} strokeWidth={1.5} aria-hidden />
    </button>
  )
}

/** Copies a text, and says so for a moment. */
export function CopyButton({ text, label = words.copy, variant }: { text: string; label?: string; variant?: Variant }) {
  const [isCopied, setCopied] = useState(false)
  async function copy() {
    await navigator.clipboard.writeText(text)
    setCopied(true)
    setTimeout(() => setCopied(false), 1_500)
  }
  return (
    <Button {...(variant && { variant })} icon={isCopied ? Check : Copy} onClick={copy}>
      <span aria-live="polite">{isCopied ? words.copied : label}</span>
    </Button>
  )
}
