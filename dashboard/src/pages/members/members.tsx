import type { components } from '@inlay/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { LogOut, Plus, UserMinus } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useFilters } from '../../lib/filters.ts'
import { api, unwrap } from '../../session/api.ts'
import { invitationsQuery, membersQuery } from '../../session/lists.ts'
import { meQuery, useOrganization } from '../../session/me.ts'
import { Button, CopyButton, IconButton } from '../../ui/controls/button.tsx'
import { Field, Input, Select } from '../../ui/controls/form.tsx'
import { Badge, Notice, PageHeader, Section } from '../../ui/display/layout.tsx'
import { FormError, Loaded } from '../../ui/display/states.tsx'
import { Ago } from '../../ui/display/time.tsx'
import { ConfirmDialog, Dialog, FormActions } from '../../ui/overlays/overlays.tsx'
import { notify, notifyError } from '../../ui/overlays/toasts.tsx'
import { words } from '../../ui/words.ts'
import { t } from './texts.ts'

type Member = components['schemas']['Member']
type Invitation = components['schemas']['Invitation']
type Role = Member['role']

const roles = Object.entries(t.roles) as [Role, string][]

export default function Members() {
  const { isAdmin } = useOrganization()
  const [{ invite }, setFilters] = useFilters({ invite: '' })
  const setInviting = (isOpen: boolean) => setFilters({ invite: isOpen ? 'yes' : '' })
  return (
    <>
      <PageHeader
        title={t.title}
        text={t.text}
        actions={
          isAdmin && (
            <Button variant="primary" icon={Plus} onClick={() => setInviting(true)}>
              {t.invite}
            </Button>
          )
        }
      />
      {!isAdmin && <Notice>{words.adminsOnly}</Notice>}
      <div className="grid gap-3">
        <MemberList />
        {isAdmin && <Invitations />}
      </div>
      {isAdmin && (
        <Dialog isOpen={invite === 'yes'} onClose={() => setInviting(false)} title={t.invite} text={t.inviteText}>
          <InviteForm onDone={() => setInviting(false)} />
        </Dialog>
      )}
    </>
  )
}

const initialOf = (text: string) => [...text][0]?.toUpperCase() ?? ''

const Initial = ({ text }: { text: string }) => (
  <span
    aria-hidden
    className="grid size-8 shrink-0 place-items-center rounded-full bg-brass-soft text-sm font-semibold text-brass"
  >
    {initialOf(text)}
  </span>
)

function MemberList() {
  const members = useQuery(membersQuery)
  return (
    <Section title={t.title}>
      <Loaded query={members} lines={4}>
        {(data) => (
          <ul>
            {data.map((member) => (
              <MemberItem key={member.id} member={member} isLastAdmin={isLastAdmin(member, data)} />
            ))}
          </ul>
        )}
      </Loaded>
    </Section>
  )
}

const isLastAdmin = (member: Member, all: Member[]) =>
  member.role === 'admin' && all.filter(({ role }) => role === 'admin').length === 1

function MemberItem({ member, isLastAdmin: isLast }: { member: Member; isLastAdmin: boolean }) {
  const { user, role, created_at } = member
  const { isAdmin } = useOrganization()
  const { data: me } = useQuery(meQuery)
  const [isRemoving, setRemoving] = useState(false)
  const isMe = me?.id === user.id
  return (
    <li className="flex flex-wrap items-center gap-3 border-t border-line py-3 first:border-t-0 first:pt-0 last:pb-0">
      <Initial text={user.name || user.email} />
      <div className="min-w-0 flex-1 basis-48">
        <p className="flex items-center gap-2 font-[550]">
          <span className="truncate">{user.name || user.email}</span>
          {isMe && <Badge>{t.you}</Badge>}
        </p>
        <p className="truncate text-sm text-muted">
          {user.email} · {t.joined} <Ago at={created_at} />
        </p>
        {isAdmin && isLast && <p className="text-sm text-muted">{t.lastAdmin}</p>}
      </div>
      {isAdmin ? <RoleSelect member={member} isMe={isMe} isLast={isLast} /> : <Badge>{t.roles[role]}</Badge>}
      {isMe ? (
        <Leave isLast={isLast} />
      ) : (
        isAdmin && (
          <>
            <IconButton icon={UserMinus} label={t.remove(user.email)} onClick={() => setRemoving(true)} />
            <Remove member={member} isOpen={isRemoving} onClose={() => setRemoving(false)} />
          </>
        )
      )}
    </li>
  )
}

/** Admins who make themselves members can't take that back, so they're asked first. */
function RoleSelect({ member, isMe, isLast }: { member: Member; isMe: boolean; isLast: boolean }) {
  const [isAsking, setAsking] = useState(false)
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (role: Role) =>
      unwrap(api.PATCH('/organizations/current/members/{id}', { params: { path: { id: member.id } }, body: { role } })),
    onSuccess(_, role) {
      setAsking(false)
      if (isMe) return location.reload()
      notify(t.roleChanged(member.user.email, t.roles[role]), { undo: () => change.mutate(member.role) })
    },
    onError: (error) => !isAsking && notifyError(t.roleFailed, error),
    onSettled: () => queries.invalidateQueries({ queryKey: ['members'] }),
  })
  return (
    <>
      <Select
        aria-label={t.roleOf(member.user.email)}
        value={change.isPending ? change.variables : member.role}
        options={roles}
        disabled={isLast || change.isPending}
        onValue={(role) => (isMe ? setAsking(true) : change.mutate(role))}
      />
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={t.demoteMe}
        text={t.demoteMeText}
        action={t.demote}
        isPending={change.isPending}
        error={change.error}
        onConfirm={() => change.mutate('member')}
      />
    </>
  )
}

function Remove({ member, isOpen, onClose }: { member: Member; isOpen: boolean; onClose: () => void }) {
  const queries = useQueryClient()
  const { id, user } = member
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE('/organizations/current/members/{id}', { params: { path: { id } } })),
    onSuccess() {
      onClose()
      notify(t.removed(user.email))
      return queries.invalidateQueries({ queryKey: ['members'] })
    },
  })
  return (
    <ConfirmDialog
      isOpen={isOpen}
      onClose={onClose}
      title={t.removeTitle(user.email)}
      text={t.removeText}
      action={t.removeAction}
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
    />
  )
}

function Leave({ isLast }: { isLast: boolean }) {
  const { name } = useOrganization()
  const [isOpen, setOpen] = useState(false)
  const leave = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations/current/leave')),
    // The token was for this organization, so the dashboard starts again.
    onSuccess: () => location.assign('/'),
  })
  return (
    <>
      <Button icon={LogOut} disabled={isLast} onClick={() => setOpen(true)}>
        {t.leave}
      </Button>
      <ConfirmDialog
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        title={t.leaveTitle(name)}
        text={t.leaveText}
        action={t.leave}
        isPending={leave.isPending || leave.isSuccess}
        error={leave.error}
        onConfirm={() => leave.mutate()}
      />
    </>
  )
}

function Invitations() {
  const invitations = useQuery(invitationsQuery)
  return (
    <Section title={t.invitations} text={t.invitationsText}>
      <Loaded query={invitations}>
        {(data) =>
          data.length === 0 ? (
            <p className="text-muted">{t.noInvitations}</p>
          ) : (
            <ul>
              {data.map((invitation) => (
                <InvitationItem key={invitation.id} invitation={invitation} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Section>
  )
}

function InvitationItem({ invitation }: { invitation: Invitation }) {
  const { id, email, role, invited_by, created_at, expires_at } = invitation
  const [isWithdrawing, setWithdrawing] = useState(false)
  const queries = useQueryClient()
  const withdraw = useMutation({
    mutationFn: () => unwrap(api.DELETE('/organizations/current/invitations/{id}', { params: { path: { id } } })),
    onSuccess() {
      notify(t.withdrawn(email))
      return queries.invalidateQueries({ queryKey: ['invitations'] })
    },
  })
  const renew = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations/current/invitations/{id}/renew', { params: { path: { id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['invitations'] }),
    onError: (error) => notifyError(t.newLinkFailed, error),
  })
  return (
    <li className="flex flex-wrap items-center gap-3 border-t border-line py-3 first:border-t-0 first:pt-0 last:pb-0">
      <div className="min-w-0 flex-1 basis-48">
        <p className="flex items-center gap-2 font-[550]">
          <span className="truncate">{email}</span>
          <Badge>{t.roles[role]}</Badge>
        </p>
        <p className="text-sm wrap-anywhere text-muted">
          {t.invitedBy(invited_by)} <Ago at={created_at} /> · {t.expires} <Ago at={expires_at} />
        </p>
      </div>
      <Button isPending={renew.isPending} onClick={() => renew.mutate()}>
        {t.newLink}
      </Button>
      <Dialog isOpen={renew.isSuccess} onClose={renew.reset} title={t.newLink} text={t.newLinkText}>
        {renew.data && <InvitationLink invitation={renew.data} onDone={renew.reset} />}
      </Dialog>
      <Button onClick={() => setWithdrawing(true)}>{t.withdraw}</Button>
      <ConfirmDialog
        isOpen={isWithdrawing}
        onClose={() => setWithdrawing(false)}
        title={t.withdrawTitle(email)}
        text={t.withdrawText}
        action={t.withdraw}
        isPending={withdraw.isPending}
        error={withdraw.error}
        onConfirm={() => withdraw.mutate()}
      />
    </li>
  )
}

/** The link is shown once, so the user copies it here. */
function InvitationLink({
  invitation: { email, url, mailed },
  onDone,
}: {
  invitation: Invitation
  onDone: () => void
}) {
  return (
    <div className="grid gap-3">
      <p>{mailed ? t.linkMailed(email) : t.sendLink(email)}</p>
      <code className="mono block rounded-control border border-line bg-sunken p-3 wrap-anywhere">{url}</code>
      <p className="text-sm text-muted">{t.linkShownOnce}</p>
      <FormActions>
        <CopyButton text={url} label={t.copyLink} variant="primary" />
        <Button onClick={onDone}>{words.close}</Button>
      </FormActions>
    </div>
  )
}

function InviteForm({ onDone }: { onDone: () => void }) {
  const [email, setEmail] = useState('')
  const [role, setRole] = useState<Role>('member')
  const queries = useQueryClient()
  const create = useMutation({
    mutationFn: () => unwrap(api.POST('/organizations/current/invitations', { body: { email: email.trim(), role } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['invitations'] }),
  })
  function submit(event: FormEvent) {
    event.preventDefault()
    if (!create.isPending) create.mutate()
  }
  if (create.data) return <InvitationLink invitation={create.data} onDone={onDone} />
  return (
    <form onSubmit={submit} className="grid gap-3">
      <Field label={t.email}>
        <Input
          type="email"
          required
          maxLength={254}
          value={email}
          autoComplete="off"
          placeholder="ada@example.com"
          onChange={({ target }) => setEmail(target.value)}
        />
      </Field>
      <Field label={t.role} hint={t.roleHints[role]}>
        <Select value={role} options={roles} onValue={setRole} />
      </Field>
      <FormError error={create.error} />
      <FormActions>
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button type="submit" variant="primary" isPending={create.isPending}>
          {t.createInvitation}
        </Button>
      </FormActions>
    </form>
  )
}
