import { words } from './words.ts'

interface Named {
  end_user_name: string | null
  is_preview: boolean
}

interface Identified {
  email: string
  external_id: string
  is_preview: boolean
}

/** What an end user is called on every page. A member who tries the agent isn't confused with a customer. */
export function endUserName(user: Named | Identified): string {
  const name = 'email' in user ? user.email || user.external_id : (user.end_user_name ?? '')
  return user.is_preview ? words.previewBy(name) : name
}
