import { api } from './api.ts'

/** Ends the session in this browser, and every token that was issued from it. */
export async function signOut(): Promise<void> {
  await api.POST('/auth/logout')
  location.assign('/signed-out')
}
