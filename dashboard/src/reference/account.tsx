import { useRef, useState, useSyncExternalStore } from 'react'
import { api, unwrap } from '../session/api.ts'
import { currentOrganizationId, openSessionInBackground, openSessionInPopup, sessionEnd } from '../session/session.ts'

const readUser = () => unwrap(api.GET('/users/me'))
export type User = Awaited<ReturnType<typeof readUser>>

/** Finds out who is signed in in this browser. The page can be read without signing in, so problems don't matter here. */
export async function findUser(): Promise<User | undefined> {
  try {
    return (await openSessionInBackground()) ? await readUser() : undefined
  } catch {
    return undefined
  }
}

/** Says as whom requests are sent, and in which organization. */
export function Account({ found }: { found: User | undefined }) {
  const [user, setUser] = useState(found)
  const [organizationId, setOrganizationId] = useState(currentOrganizationId)
  const [problem, setProblem] = useState('')
  const attempt = useRef<AbortController>(undefined)
  const hasEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.hasEnded)
  const slug = user?.organizations.find(({ id }) => id === organizationId)?.slug

  const during = (action: (signal: AbortSignal) => Promise<unknown>) => async () => {
    attempt.current?.abort()
    attempt.current = new AbortController()
    const { signal } = attempt.current
    setProblem('')
    try {
      await action(signal)
      setUser(await readUser())
      setOrganizationId(currentOrganizationId())
    } catch (error) {
      if (!signal.aborted) setProblem((error as Error).message)
    }
  }

  const choose = (next: string) => async () => {
    if (!(await openSessionInBackground(next))) throw new Error('Your session has ended. Sign in again.')
  }

  return (
    <div className="flex flex-wrap items-center justify-end gap-x-3 gap-y-2">
      {problem && (
        <p role="alert" className="text-danger">
          {problem}
        </p>
      )}
      {hasEnded && (
        <p role="status" className="text-brass">
          Your session has ended.
        </p>
      )}
      {user && !hasEnded ? (
        <>
          <span className="truncate text-muted">{user.email}</span>
          {user.organizations.length > 0 && (
            <select
              className="input"
              aria-label="Organization"
              value={slug ?? ''}
              onChange={(event) => during(choose(event.target.value))()}
            >
              {!slug && <option value="">No organization</option>}
              {user.organizations.map((one) => (
                <option key={one.id} value={one.slug}>
                  {one.name}
                </option>
              ))}
            </select>
          )}
        </>
      ) : (
        <button
          type="button"
          className="button button-primary"
          onClick={during((signal) => (hasEnded ? sessionEnd.signInAgain(slug, signal) : openSessionInPopup(signal)))}
        >
          Sign in
        </button>
      )}
    </div>
  )
}
