import { type FormEvent, useState } from 'react'
import { ApiError } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ChoiceCards } from '../../ui/controls/choice.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input } from '../../ui/controls/form.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { FormActions } from '../../ui/overlays/overlays.tsx'
import { words } from '../../ui/words.ts'
import { dayOf, endOfDay, type Role } from './data.ts'
import { t } from './texts.ts'

export interface Draft {
  name: string
  role: Role
  expires_at: string | null
}

/** Name, role and expiry of an account, new or existing. */
export function AccountForm({
  initial,
  action,
  isPending,
  error,
  onSubmit,
  onCancel,
}: {
  initial: Draft
  action: string
  isPending: boolean
  error: Error | null
  onSubmit: (draft: Draft) => void
  onCancel: () => void
}) {
  const [name, setName] = useState(initial.name)
  const [role, setRole] = useState<Role>(initial.role)
  const [day, setDay] = useState(dayOf(initial.expires_at))
  const isNameTaken = error instanceof ApiError && error.code === 'DUPLICATE_RESOURCE'
  function submit(event: FormEvent) {
    event.preventDefault()
    // An account that was created with a time of day keeps it, unless the day changes.
    const expires_at = day === dayOf(initial.expires_at) ? initial.expires_at : endOfDay(day)
    if (!isPending) onSubmit({ name: name.trim(), role, expires_at })
  }
  return (
    <form onSubmit={submit} className="grid gap-4">
      <Field label={t.name} hint={t.nameHint} error={isNameTaken ? t.nameTaken : fieldProblem(error, 'name')}>
        <Input
          value={name}
          onChange={({ target }) => setName(target.value)}
          placeholder={t.namePlaceholder}
          required
          maxLength={100}
          autoComplete="off"
        />
      </Field>
      <ChoiceCards
        label={t.role}
        value={role}
        options={[
          { value: 'member', name: t.roles.member, text: t.memberText },
          { value: 'admin', name: t.roles.admin, text: t.adminText },
        ]}
        onValue={setRole}
      />
      <Field label={t.expires} hint={t.expiresHint} error={fieldProblem(error, 'expires_at')} isOptional>
        <Input
          type="date"
          value={day}
          min={dayOf(new Date().toISOString())}
          max="9999-12-30"
          onChange={({ target }) => setDay(target.value)}
        />
      </Field>
      <FormError error={isNameTaken ? null : error} />
      <FormActions>
        <Button onClick={onCancel}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={isPending}>
          {action}
        </Button>
      </FormActions>
    </form>
  )
}
