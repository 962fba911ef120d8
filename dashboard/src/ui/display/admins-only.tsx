import { texts } from '../../lib/texts.ts'
import { EmptyState } from './states.tsx'

export const t = texts('adminsOnly', {
  title: 'Only admins can see this',
  text: 'Your role in this organization is member. Ask an admin to make you one, or to change the setting for you.',
})

/** In place of a page that the API only shows to admins. */
export const AdminsOnly = () => (
  <div className="card">
    <EmptyState title={t.title} text={t.text} />
  </div>
)
