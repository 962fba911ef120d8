import { texts } from '../../lib/texts.ts'
import { EmptyState } from './states.tsx'

const t = texts({
  en: {
    title: 'Only admins can see this',
    text: 'Your role in this organization is member. Ask an admin to make you one, or to change the setting for you.',
  },
  de: {
    title: 'Das können nur Admins sehen',
    text: 'Ihre Rolle in dieser Organisation ist Mitglied. Bitten Sie einen Admin um diese Rolle oder um die Änderung.',
  },
})

/** In place of a page that the API only shows to admins. */
export const AdminsOnly = () => (
  <div className="card">
    <EmptyState title={t.title} text={t.text} />
  </div>
)
