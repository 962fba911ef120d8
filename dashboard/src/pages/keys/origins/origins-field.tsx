import { Plus, X } from 'lucide-react'
import { type ClipboardEvent, type KeyboardEvent, type ReactNode, useState } from 'react'
import { texts } from '../../../lib/texts.ts'
import { Button, IconButton } from '../../../ui/controls/button.tsx'
import { Field, Input } from '../../../ui/controls/form.tsx'
import { checkOrigin } from './origins.ts'

export const t = texts('originsField', {
  add: 'Add',
  remove: (origin: string) => `Remove ${origin}`,
  use: (origin: string) => `Use ${origin}`,
  full: (max: number) => `At most ${max} origins.`,
})

/** A list of origins, and what was typed but isn't in it yet. */
export function useOrigins(initial: readonly string[]) {
  const [base, setBase] = useState(initial)
  const [origins, setOrigins] = useState(initial)
  const [draft, setDraft] = useState('')
  const [isChecked, setChecked] = useState(false)
  // If another admin saves a new list, it replaces this one unless the user has already edited it.
  if (initial.join() !== base.join()) {
    setBase(initial)
    if (origins.join() === base.join()) setOrigins(initial)
  }
  const check = draft === '' ? {} : checkOrigin(draft)
  const withOrigin = (origin: string) => [...new Set([...origins, origin])]
  return {
    origins,
    draft,
    check: check.isUnfinished && !isChecked ? {} : check,
    isChanged: draft !== '' || origins.join() !== initial.join(),
    setDraft(text: string) {
      setChecked(false)
      setDraft(text)
    },
    add(origin: string) {
      if (checkOrigin(origin).problem) return setChecked(true)
      setOrigins(withOrigin(origin))
      setDraft('')
    },
    remove: (origin: string) => setOrigins(origins.filter((one) => one !== origin)),
    reset(next: readonly string[] = initial) {
      setOrigins(next)
      setDraft('')
    },
    /** Everything that was entered, or undefined if the field has a problem, which it then shows. */
    finish(): string[] | undefined {
      if (check.problem) setChecked(true)
      return check.problem ? undefined : draft ? withOrigin(draft) : [...origins]
    },
  }
}

export function OriginsField({
  label,
  hint,
  value,
  max,
  isOptional,
}: {
  label: string
  hint?: ReactNode
  value: ReturnType<typeof useOrigins>
  max: number
  isOptional?: boolean
}) {
  const { origins, draft, check, setDraft, add, remove } = value
  const isFull = origins.length >= max
  function press(event: KeyboardEvent) {
    if (event.key !== 'Enter' || draft === '') return
    event.preventDefault()
    add(draft)
  }
  function paste(event: ClipboardEvent) {
    const pasted = event.clipboardData.getData('text').trim()
    if (draft !== '' || !/\s/.test(pasted)) return
    event.preventDefault()
    const parts = pasted.split(/[\s,]+/)
    value.reset([...new Set([...origins, ...parts.filter((part) => !checkOrigin(part).problem)])].slice(0, max))
    setDraft(parts.filter((part) => checkOrigin(part).problem).join(' '))
  }
  return (
    <div className="grid gap-2">
      <Field
        label={label}
        hint={hint}
        error={isFull && draft ? t.full(max) : check.problem}
        isOptional={isOptional ?? false}
      >
        <div className="flex gap-2">
          <Input
            className="mono"
            value={draft}
            onChange={(event) => setDraft(event.target.value.trimStart())}
            onKeyDown={press}
            onPaste={paste}
            placeholder="https://app.example.com"
            inputMode="url"
            autoComplete="off"
            autoCapitalize="none"
            spellCheck={false}
            maxLength={3_000}
          />
          <Button icon={Plus} disabled={draft === '' || isFull} onClick={() => draft && !isFull && add(draft)}>
            {t.add}
          </Button>
        </div>
      </Field>
      {check.suggestion && !isFull && (
        <p>
          <Button onClick={() => add(check.suggestion ?? '')}>{t.use(check.suggestion)}</Button>
        </p>
      )}
      {origins.length > 0 && (
        <ul aria-label={label} className="rounded-control border border-line">
          {origins.map((origin) => (
            <li key={origin} className="flex items-center gap-2 border-line pr-1 pl-3 not-first:border-t">
              <span className="mono min-w-0 flex-1 wrap-anywhere">{origin}</span>
              <IconButton icon={X} label={t.remove(origin)} onClick={() => remove(origin)} />
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
