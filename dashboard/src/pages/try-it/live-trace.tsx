import { Link } from '@tanstack/react-router'
import { ArrowRight } from 'lucide-react'
import { useEffect } from 'react'
import { useOrgPath } from '../../session/me.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Section } from '../../ui/display/layout.tsx'
import { ErrorState, Skeleton } from '../../ui/display/states.tsx'
import { type ThreadPage, useThreadMessages } from '../threads/thread-data.ts'
import { MessageItem } from '../threads/trace.tsx'
import { t } from './texts.ts'

/** What the agent does for the conversation, while it does it. */
export function LiveTrace({
  threadId,
  messageId,
  isReady,
  onPrompt,
}: {
  threadId: string | undefined
  messageId: string | undefined
  /** Whether the preview can take a message. */
  isReady: boolean
  onPrompt: (text: string) => void
}) {
  const orgPath = useOrgPath()
  return (
    <Section
      title={t.trace}
      text={t.traceText}
      className="min-w-0"
      actions={
        threadId && (
          <Link to={orgPath(`threads/${threadId}`)} className="link flex items-center gap-1 text-sm">
            {t.openThread} <ArrowRight size={14} strokeWidth={1.5} aria-hidden />
          </Link>
        )
      }
    >
      {threadId ? (
        <Messages key={threadId} threadId={threadId} messageId={messageId} />
      ) : (
        <>
          <p className="text-muted">{t.empty}</p>
          <div className="mt-3 flex flex-wrap gap-2">
            {t.prompts.map((prompt) => (
              <Button key={prompt} disabled={!isReady} onClick={() => onPrompt(prompt)}>
                {prompt}
              </Button>
            ))}
          </div>
          <p className="mt-4 text-sm text-faint">{t.metered}</p>
        </>
      )}
    </Section>
  )
}

const runningMs = 700
const waitingMs = 1_500

/** How soon to look again: not at all once the last message is answered. */
function nextLook(pages: readonly ThreadPage[] | undefined, messageId: string | undefined): number | false {
  const messages = pages?.flatMap((page) => page.messages) ?? []
  const last = messages.at(-1)
  if (!last || !messages.some(({ id }) => id === messageId)) return runningMs
  if (last.status === 'waiting') return waitingMs
  return last.role === 'user' || last.status === 'running' ? runningMs : false
}

function Messages({ threadId, messageId }: { threadId: string; messageId: string | undefined }) {
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage } = useThreadMessages(threadId, {
    withReplaced: false,
    nextLook: (pages) => nextLook(pages, messageId),
  })
  useEffect(() => {
    if (hasNextPage && !isFetching) void fetchNextPage()
  }, [hasNextPage, isFetching, fetchNextPage])
  // An answer that was complete can be continued or replaced.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new message is a reason to look again
  useEffect(() => {
    void refetch()
  }, [messageId, refetch])
  if (error && !data) return <ErrorState error={error} onRetry={() => refetch()} />
  if (!data) return <Skeleton lines={6} />
  return (
    <ol className="grid gap-4">
      {data.pages.flatMap(({ messages, runs, contents_visible }) =>
        messages.map((message) => (
          <MessageItem
            key={message.id}
            message={message}
            run={runs.get(message.id)}
            isVisible={contents_visible}
            isOpen
          />
        )),
      )}
    </ol>
  )
}
