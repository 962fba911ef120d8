import '../style.css'
import { useEffect, useRef, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { applyTheme } from '../lib/theme.ts'
import mark from '../mark.svg'
import { Account, findUser, type User } from './account.tsx'
import { Contents, type Specification } from './contents.tsx'
import { Introduction } from './introduction.tsx'

applyTheme()
const root = createRoot(document.getElementById('root') as HTMLElement)

/** In English, like the descriptions that the API has. */
function Reference({ specification, user }: { specification: Specification; user: User | undefined }) {
  const operations = useRef<HTMLDivElement>(null)
  const open = useRef<(hash: string) => void>(undefined)
  const [problem, setProblem] = useState('')
  useEffect(() => {
    import('./swagger.ts')
      .then(({ showOperations }) => {
        if (operations.current) open.current = showOperations(operations.current, specification)
      })
      .catch((error: Error) => setProblem(error.message))
  }, [specification])
  return (
    <div className="flex items-start">
      <a
        href="#operations"
        className="button sr-only focus-visible:not-sr-only focus-visible:absolute focus-visible:top-2 focus-visible:left-2"
      >
        Skip the list of operations
      </a>
      <Contents specification={specification} onOpen={(hash) => open.current?.(hash)} />
      <div className="mx-auto w-full max-w-[960px] min-w-0 px-4 py-5 sm:px-8">
        <header className="mb-6 flex flex-wrap items-center gap-3">
          <img src={mark} alt="" width="28" height="28" />
          <h1 className="mr-auto text-xl font-semibold tracking-[-0.02em]">API reference</h1>
          <Account found={user} />
        </header>
        <Introduction text={specification.info.description} />
        <div ref={operations} className="mt-8">
          <p role={problem ? 'alert' : 'status'} className="text-muted">
            {problem ? `The operations couldn’t be loaded: ${problem}. Reload the page to try again.` : 'Loading…'}
          </p>
        </div>
      </div>
    </div>
  )
}

async function start(): Promise<void> {
  const [response, user] = await Promise.all([fetch('/api/spec.json'), findUser()])
  if (!response.ok) throw new Error(`The server responded with status ${response.status}.`)
  root.render(<Reference specification={await response.json()} user={user} />)
}

start().catch((error: Error) =>
  root.render(
    <main className="grid min-h-dvh place-items-center p-6">
      <div role="alert" className="card max-w-[420px] p-7">
        <h1 className="text-xl font-semibold">The API reference couldn’t be loaded</h1>
        <p className="mt-1 text-muted">{error.message} Reload the page to try again.</p>
      </div>
    </main>,
  ),
)
