import { escapeHtml } from '../../kernel/http/pages.ts'
import type { Mail } from './outbox.ts'

interface Letter {
  to: string
  subject: string
  /** The first paragraph. */
  text: string
  action: { text: string; url: string }
  /** The last paragraph: how long the link works, and what to do if the mail is unexpected. */
  note: string
}

function write({ to, subject, text, action, note }: Letter): Mail {
  const link = escapeHtml(action.url)
  return {
    to,
    subject,
    text: `${text}\n\n${action.text}:\n${action.url}\n\n${note}\n`,
    html: `<!doctype html><html lang="en"><body style="margin:0;padding:24px;font:15px/22px system-ui,sans-serif;color:#1a1c1a">
<p>${escapeHtml(text)}</p>
<p><a href="${link}" style="display:inline-block;padding:8px 16px;color:#fff;background:#0b6b5c;border-radius:8px;text-decoration:none">${escapeHtml(action.text)}</a></p>
<p style="color:#5d615b">Or open this link:<br>${link}</p>
<p style="color:#5d615b">${escapeHtml(note)}</p>
</body></html>`,
  }
}

export const writeInvitation = (invitation: {
  to: string
  organization: string
  invitedBy: string
  url: string
  days: number
}): Mail =>
  write({
    to: invitation.to,
    subject: `Join ${invitation.organization} on Inlay`,
    text: `${invitation.invitedBy} invited you to join “${invitation.organization}” on Inlay.`,
    action: { text: 'View the invitation', url: invitation.url },
    note: `The link works once, within ${invitation.days} days. If you don’t know the sender, ignore this message.`,
  })

export const writeMembershipNotice = (notice: { to: string; organization: string; url: string }): Mail =>
  write({
    to: notice.to,
    subject: `You’re a member of ${notice.organization} on Inlay`,
    text: `The directory of “${notice.organization}” made your account ${notice.to} a member on Inlay, without asking you. Members of an organization see each other’s names and addresses. If you don’t want to be a member, open Inlay, choose “${notice.organization}”, then Members, and leave the organization.`,
    action: { text: 'Open Inlay', url: notice.url },
    note: 'If you want to stay, you don’t have to do anything. We send this message once.',
  })

export const writePasswordReset = (reset: { to: string; url: string }): Mail =>
  write({
    to: reset.to,
    subject: 'Set a new password for Inlay',
    text: `We received a request to reset the password of the Inlay account ${reset.to}.`,
    action: { text: 'Set a new password', url: reset.url },
    note: 'The link works once, within one hour. If you didn’t ask for it, ignore this message: your password stays the same.',
  })
