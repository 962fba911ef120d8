import type { UIMessageChunk } from 'ai'
import type { LateResponse } from '../../tools/hub/hub.ts'
import type { TicketHolder } from '../../visitors/tickets/signed-tickets.ts'
import type { RunClient, RunError, RunPage, RunStatus } from './run.ts'

/** Who talks to the agent. */
export interface Speaker {
  holder: TicketHolder
  /** For an anonymous visitor: fingerprint of the secret that its threads belong to. */
  visitor: string | undefined
  /** The client's address; see `Service.clientAddress`. */
  address: string
  /**
   * Whether the widget's own frame is at the other end. A script of the page only sees the threads that started at its
   * own origin, and only approves tools of that origin.
   */
  is_own_frame: boolean
}

export interface NewMessage {
  /** A UUID that the client chose, so that a repeated request doesn't start a second run. */
  id: string
  /** A UUID. An unknown one starts a thread with this id. */
  thread_id: string
  text: string
  /** The name of a skill to activate. */
  skill?: string | undefined
  /** Replaces the thread's last message and its answer. */
  is_edit?: boolean
  page: RunPage | null
  client: RunClient | null
}

export interface Decision {
  call_id: string
  is_approved: boolean
  edited_args?: Record<string, unknown> | undefined
  /** Also for later calls of this tool, as long as it stays as it is, in this thread. */
  is_always?: boolean
  /** With `is_always`, of a call without arguments: also for the other tools that the question counted. */
  is_for_origin?: boolean
  /** The page where the user decided. It may have been loaded again since the run began. */
  page?: RunPage
}

/** A page's response to a call whose caller no longer waits for it. */
export interface LateResult extends LateResponse {
  /** Who is at the page that was asked. */
  speaker: Speaker
  call_id: string
}

/** What a client already has of a run. */
export interface Position {
  run_id: string
  attempt: number
  /** Number of chunks. */
  n: number
}

/** Receives a run as it goes on. A higher attempt replaces what the viewer has of the run. */
export interface Viewer {
  /** `n` is the position of the first chunk, from 0. */
  chunks(run: { id: string; attempt: number }, n: number, chunks: readonly UIMessageChunk[]): void
  /** The run rests: it has ended, or waits for the user. */
  rested(rest: RunRest): void
}

/** A run that has ended, or waits for the user. */
export interface RunRest {
  id: string
  attempt: number
  /** Number of chunks. */
  n: number
  status: RunStatus
  error: RunError | null
}

/** The agent's runs. Every method throws a Failure that says what to do if it refuses. */
export interface Runs {
  /** Starts a run, or queues the message if the thread has one that is running. */
  send(speaker: Speaker, message: NewMessage): Promise<{ run_id: string; is_queued: boolean }>
  /** Replaces the thread's last answer with a new one. */
  regenerate(speaker: Speaker, threadId: string, page: RunPage | null): Promise<{ run_id: string }>
  /** Stops the thread's run, if it has one. */
  stop(speaker: Speaker, threadId: string): Promise<void>
  /** Ends the thread's run before it returns, whichever node works on it. */
  end(speaker: Speaker, threadId: string): Promise<void>
  /** Ends the runs of an end user, or of everyone, whose access has ended, whichever nodes work on them. */
  endAccess(organizationId: string, endUserId?: string): Promise<void>
  /** Ends all runs of an end user, whichever nodes work on them. */
  endAllOf(organizationId: string, endUserId: string): Promise<void>
  decide(speaker: Speaker, decision: Decision): Promise<void>
  /** Continues a run that waits for its AG-UI client, with the results of calls that run there. */
  settleClientCalls(
    speaker: Speaker,
    threadId: string,
    results: readonly { call_id: string; content: string; is_error: boolean }[],
    client: RunClient,
  ): Promise<void>
  /**
   * Takes the result of a call that a page was asked to make, and whose caller is gone. It's stored if the call's
   * outcome is unknown, or becomes so within a minute. The caller has checked that this page was asked.
   */
  addLateResult(result: LateResult): void
  /** Makes a visitor's thread the speaker's own. The conversation stays tainted by what it contains. */
  adopt(speaker: Speaker, threadId: string, visitor: string): Promise<void>
  /**
   * Shows a viewer the thread's current run from `have` on, and every later run, until the returned function is called.
   * Resolves with the current run, or the last one if none is active.
   */
  watch(
    speaker: Speaker,
    threadId: string,
    viewer: Viewer,
    have?: Position,
  ): Promise<{ run: { id: string; status: RunStatus } | null; end: () => void }>
  close(): Promise<void>
}
