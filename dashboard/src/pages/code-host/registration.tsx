import { useMutation } from '@tanstack/react-query'
import { GitBranch } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { api, unwrap } from '../../session/api.ts'
import { Button } from '../../ui/controls/button.tsx'
import { fieldProblem } from '../../ui/controls/field-problem.ts'
import { Field, Input } from '../../ui/controls/form.tsx'
import { Badge, Section } from '../../ui/display/layout.tsx'
import { FormError } from '../../ui/display/states.tsx'
import { t } from './texts.ts'

/** The first steps: the user confirms the app on GitHub, which then sends the browser back. */
export function Registration({ isAlternative }: { isAlternative: boolean }) {
  const [name, setName] = useState('')
  const start = useMutation({
    mutationFn: () => unwrap(api.POST('/org-github-apps/manifest-start', { body: { github_org_name: name.trim() } })),
    onSuccess: ({ registration_url, manifest }) => postManifest(registration_url, manifest),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!start.isPending) start.mutate()
  }
  return (
    <Section
      title={isAlternative ? t.alternative : t.app}
      text={isAlternative ? t.alternativeText : t.appText}
      actions={<Badge>{t.none}</Badge>}
    >
      <div className="grid gap-6 md:grid-cols-2">
        <form onSubmit={submit} className="grid content-start gap-3">
          <Field label={t.organization} hint={t.organizationHint} error={fieldProblem(start.error, 'github_org_name')}>
            <Input
              value={name}
              required
              maxLength={39}
              spellCheck={false}
              autoComplete="off"
              placeholder="acme"
              onChange={({ target }) => setName(target.value)}
            />
          </Field>
          <FormError error={start.error} />
          <div>
            <Button
              type="submit"
              variant={isAlternative ? 'secondary' : 'primary'}
              icon={GitBranch}
              isPending={start.isPending || start.isSuccess}
            >
              {t.register}
            </Button>
          </div>
        </form>
        <ol className="grid content-start gap-2">
          {t.steps.map((step, at) => (
            <li key={step} className="flex gap-2.5 text-muted">
              <span className="grid size-5 shrink-0 place-items-center rounded-full bg-sunken text-xs font-[550]">
                {at + 1}
              </span>
              {step}
            </li>
          ))}
        </ol>
      </div>
    </Section>
  )
}

/** GitHub takes the manifest from a form that the browser posts. The page's policy allows no other receiver. */
function postManifest(action: string, manifest: string): void {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = action
  const field = document.createElement('input')
  field.type = 'hidden'
  field.name = 'manifest'
  field.value = manifest
  form.append(field)
  document.body.append(form)
  form.submit()
}
