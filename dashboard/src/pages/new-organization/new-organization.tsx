import { useMutation, useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { texts } from '../../lib/texts.ts'
import { api, read, unwrap } from '../../session/api.ts'
import { meQuery } from '../../session/me.ts'
import { switchOrganization } from '../../session/session.ts'
import { signOut } from '../../session/sign-out.ts'
import { PlainPage } from '../../shell/plain-page.tsx'
import { Button } from '../../ui/controls/button.tsx'
import { Field, Input } from '../../ui/controls/form.tsx'
import { FormError } from '../../ui/display/states.tsx'

export const t = texts('newOrganization', {
  title: 'Create an organization',
  text: 'It holds your agent, its settings, and the users of your web applications.',
  name: 'Name',
  placeholder: 'Acme',
  create: 'Create organization',
  invitations: 'Invitations',
  invited: (by: string, role: string) => `${by} invited you as ${role}`,
  join: 'Join',
  decline: 'Decline',
  yours: 'Your organizations',
  signedInAs: (email: string) => `Signed in as ${email}.`,
  other: 'Sign out',
})

const invitationsQuery = read(['my-invitations'], (signal) => api.GET('/users/me/invitations', { signal }))

/** For users without an organization, and for those who want another. */
export default function NewOrganization() {
  const [name, setName] = useState('')
  const { data: me } = useQuery(meQuery)
  const invitations = useQuery(invitationsQuery)
  const create = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations', { body: { name } })),
    onSuccess: ({ slug }) => switchOrganization(slug),
  })
  const decide = useMutation({
    async mutationFn({ id, slug, accepts }: { id: string; slug: string; accepts: boolean }) {
      const decision = accepts ? 'accept' : 'decline'
      await unwrap(api.POST(`/users/me/invitations/{id}/${decision}`, { params: { path: { id } } }))
      if (accepts) await switchOrganization(slug)
      else await invitations.refetch()
    },
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!create.isPending) create.mutate()
  }
  return (
    <PlainPage title={t.title} text={t.text}>
      <form onSubmit={submit} className="grid gap-3">
        <Field label={t.name}>
          <Input
            value={name}
            onChange={(event) => setName(event.target.value)}
            placeholder={t.placeholder}
            required
            maxLength={100}
            autoComplete="organization"
          />
        </Field>
        <FormError error={create.error} />
        <Button type="submit" variant="primary" isPending={create.isPending || create.isSuccess}>
          {t.create}
        </Button>
      </form>
      {(invitations.data ?? []).length > 0 && (
        <section className="mt-6" aria-label={t.invitations}>
          <h2 className="mb-2 font-semibold">{t.invitations}</h2>
          <FormError error={decide.error} />
          <ul className="grid gap-2">
            {invitations.data?.map(({ id, organization, role, invited_by }) => (
              <li key={id} className="flex flex-wrap items-center gap-2 rounded-control border border-line p-3">
                <div className="min-w-0 flex-1">
                  <p className="truncate font-[550]">{organization.name}</p>
                  <p className="text-sm text-muted">{t.invited(invited_by, role)}</p>
                </div>
                <Button
                  isPending={decide.isPending}
                  onClick={() => decide.mutate({ id, slug: organization.slug, accepts: false })}
                >
                  {t.decline}
                </Button>
                <Button
                  variant="primary"
                  isPending={decide.isPending}
                  onClick={() => decide.mutate({ id, slug: organization.slug, accepts: true })}
                >
                  {t.join}
                </Button>
              </li>
            ))}
          </ul>
        </section>
      )}
      {me && me.organizations.length > 0 && (
        <section className="mt-6" aria-label={t.yours}>
          <h2 className="mb-2 font-semibold">{t.yours}</h2>
          <div className="flex flex-wrap gap-2">
            {me.organizations.map((one) => (
              <Button key={one.id} onClick={() => switchOrganization(one.slug)}>
                {one.name}
              </Button>
            ))}
          </div>
        </section>
      )}
      <p className="mt-6 text-sm text-muted">
        {me && t.signedInAs(me.email)}{' '}
        <button type="button" className="link" onClick={() => signOut()}>
          {t.other}
        </button>
      </p>
    </PlainPage>
  )
}
