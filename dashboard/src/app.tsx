import { CSPProvider } from '@base-ui/react/csp-provider'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { type ReactNode, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { router } from './router.tsx'
import { queryClient } from './session/api.ts'
import { openSession } from './session/session.ts'
import { PlainPage } from './shell/plain-page.tsx'
import { t } from './shell/texts.ts'
import { buttonClass } from './ui/controls/button.tsx'
import { describeError } from './ui/display/states.tsx'
import { words } from './ui/words.ts'

const root = createRoot(document.getElementById('root') as HTMLElement)
const show = (content: ReactNode) =>
  root.render(
    <StrictMode>
      {/* The content security policy allows no style elements. */}
      <CSPProvider disableStyleElements>{content}</CSPProvider>
    </StrictMode>,
  )
const startAgain = (name: string) => (
  <a href="/" className={buttonClass('primary')}>
    {name}
  </a>
)

async function start(): Promise<void> {
  if (location.pathname === '/signed-out') {
    return show(
      <PlainPage title={t.signedOut} text={t.signedOutText}>
        {startAgain(t.signIn)}
      </PlainPage>,
    )
  }
  const outcome = await openSession()
  if (outcome === 'passed on') show(<PlainPage title={t.closeWindow} />)
  if (outcome !== 'open') return
  show(
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  )
}

start().catch((error: Error) =>
  show(
    <PlainPage title={t.signInFailed} text={error.name === 'SignInFailed' ? error.message : describeError(error)}>
      {startAgain(words.retry)}
    </PlainPage>,
  ),
)
