import { texts } from '../../lib/texts.ts'

export const t = texts('organization', {
  title: 'Settings',
  text: 'Rename the organization, set up single sign-on, or delete the organization.',
  renameTitle: 'Rename',
  name: 'Name',
  nameHint: 'Shown to members, in invitations and where users choose an organization.',
  rename: 'Save',
  renamed: 'The organization was renamed',
  facts: 'For support and scripts',
  id: 'ID',
  slug: 'Slug',
  slugHint: 'The slug doesn’t change with the name, so that links and scripts keep working.',
  delete: 'Delete the organization',
  deleteText:
    'Ends all access at once, and erases everything: members, end users, conversations, keys, settings, usage and the audit trail. This can’t be undone.',
  deleteTitle: (name: string) => `Delete ${name}?`,
  deleteQuestion:
    'Everyone loses access right away, and everything that belongs to the organization is erased, including its audit trail. If you need the audit trail or conversations, export them first. This can’t be undone.',
  deleted: 'The organization was deleted',
  erasing: 'Everything that belongs to it is being erased. The server continues if you close this page.',
  erased: (rows: string) => `Nothing of it is left. ${rows} rows were erased:`,
  receipt: 'Receipt',
  requestedAt: 'Deleted',
  finishedAt: 'Erased',
  notYet: 'Not yet',
  continue: 'Continue',
})
