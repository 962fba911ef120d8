import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { ChatSession } from '../chat/state.ts'
import { createTexts, type Texts } from './strings.ts'

export const TextsContext: preact.Context<Texts> = createContext(createTexts('en'))
export const useTexts = (): Texts => useContext(TextsContext)

/** The message that was sent in another tab. */
export const ElsewhereContext: preact.Context<string | undefined> = createContext<string | undefined>(undefined)

const SessionContext = createContext<ChatSession | undefined>(undefined)
export const SessionProvider = SessionContext.Provider
export function useSession(): ChatSession {
  const session = useContext(SessionContext)
  if (!session) throw new Error('The chat has no session')
  return session
}
