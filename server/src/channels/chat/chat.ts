import type { ClientMessage, ServerMessage } from '@inlay/protocol'
import type { Chunk } from '../../agent/feeds/chunks.ts'
import { portionLength, portionsOf } from '../../agent/feeds/portions.ts'
import type { RunPage } from '../../agent/runs/run.ts'
import type { Runs, Speaker, Viewer } from '../../agent/runs/runs.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { Failure } from '../../kernel/lib/errors.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { TokenBucket } from '../../kernel/lib/shares/token-buckets.ts'
import { type ConnectLinks, completeConsent, createConnectLinks } from '../../tools/consent/end-user-consents.ts'
import { type AboutAgent, describeAgent } from './about.ts'
import { type ChatLimits, createChatLimits } from './chat-limits.ts'
import { rateMessage, readMessages } from './history.ts'
import { Outbox } from './outbox.ts'
import { changeThread, deleteThread, listThreads } from './own-threads.ts'
import { SendingSpace } from './sending-space.ts'

type ChatMessage = Extract<ClientMessage, { type: `chat/${string}` }>

/** A session that talks to the agent. */
export interface ChatClient {
  /** Who the session belongs to now. */
  speaker(): Speaker
  page(): RunPage
  say(message: ServerMessage): void
  /** Resolves once the connection has taken the message: with false if it is closed. */
  deliver(message: ServerMessage): Promise<boolean>
  /** Closes the socket, because there is no room for what it would get. The page may reconnect soon. */
  comeBack(reason: string): void
  /** Ends the session of a client that sends far more than it may. */
  flooded(): void
}

/** The agent's conversations on the widgets' sockets. */
export interface Chat {
  receive(client: ChatClient, message: ChatMessage): void
  left(client: ChatClient): void
}

/** Requests of one session that can be handled at the same time. */
const mostRequests = 8
/** How often a session's requests can be refused, until it counts as one that doesn't stop asking. */
const refusalRate = { perSecond: 5, atOnce: 500 }

export function createChat(service: Service & AboutAgent & { runs: Runs }): Chat {
  const { clock, log, runs } = service
  const links = createConnectLinks(service)
  const limits = createChatLimits(service)
  const refusals = new WeakMap<ChatClient, TokenBucket>()
  /** The thread that a session shows. */
  const shown = new WeakMap<ChatClient, { threadId: string; end: () => void }>()
  const busy = new WeakMap<ChatClient, number>()
  const outboxes = new WeakMap<ChatClient, Outbox>()
  const space = new SendingSpace()
  const gone = new WeakSet<ChatClient>()

  /** Shows the thread's runs to the session, in place of another thread's. */
  async function show(client: ChatClient, threadId: string, have: Parameters<Runs['watch']>[3]) {
    const viewer = viewerOf(client, { outbox: outboxOf(client), space, limits }, threadId, links)
    const { run, end } = await runs.watch(client.speaker(), threadId, viewer, have)
    shown.get(client)?.end()
    const endAll = () => {
      viewer.end()
      end()
    }
    if (gone.has(client)) endAll()
    else shown.set(client, { threadId, end: endAll })
    return run
  }

  function outboxOf(client: ChatClient): Outbox {
    const outbox = outboxes.get(client) ?? new Outbox(client)
    outboxes.set(client, outbox)
    return outbox
  }

  async function handle(client: ChatClient, message: ChatMessage): Promise<void> {
    const { request_id } = message
    const speaker = client.speaker()
    await limits.admit(speaker, message.type)
    switch (message.type) {
      case 'chat/about':
        return client.say({ type: 'chat/agent', request_id, ...(await describeAgent(service, speaker)) })
      case 'chat/send': {
        const { thread_id } = message
        const started = await send(client, message)
        client.say({ type: 'chat/start', request_id, thread_id, ...started })
        if (shown.get(client)?.threadId !== thread_id) await show(client, thread_id, undefined)
        return
      }
      case 'chat/resume': {
        const run = await show(client, message.thread_id, message.have)
        const isActive = run?.status === 'running' || run?.status === 'waiting'
        const { thread_id } = message
        if (isActive) client.say({ type: 'chat/start', request_id, thread_id, run_id: run.id, is_queued: false })
        else client.say({ type: 'chat/no-active', request_id, thread_id })
        return
      }
      case 'chat/abort':
        await runs.stop(speaker, message.thread_id)
        return client.say({ type: 'chat/done', request_id })
      case 'chat/decide':
        await runs.decide(speaker, {
          call_id: message.call_id,
          is_approved: message.approved,
          edited_args: message.edited_args,
          is_always: message.always,
          is_for_origin: message.scope === 'origin',
          page: client.page(),
        })
        return client.say({ type: 'chat/done', request_id })
      case 'chat/threads':
        return client.say({ type: 'chat/thread-list', request_id, ...(await listThreads(service, speaker, message)) })
      case 'chat/change-thread':
        await changeThread(service, speaker, message)
        return client.say({ type: 'chat/done', request_id })
      case 'chat/delete-thread':
        await deleteThread(service, speaker, message)
        return client.say({ type: 'chat/done', request_id })
      case 'chat/messages': {
        const addLinks = (chunks: readonly Chunk[]) => links.addTo(speaker.holder.organization_id, chunks)
        const charge = (bytes: number) => limits.charge(speaker, bytes)
        return outboxOf(client).send({
          messages: readMessages(service, speaker, message, { addLinks, charge }),
          isOver: () => gone.has(client),
        })
      }
      case 'chat/adopt':
        await runs.adopt(speaker, message.thread_id, fingerprint(message.visitor_secret))
        return client.say({ type: 'chat/done', request_id })
      case 'chat/connect': {
        const connector = await completeConsent(service, speaker.holder, message.code)
        return client.say({ type: 'chat/connected', request_id, connector })
      }
      case 'chat/feedback':
        await rateMessage(service, speaker, message)
        return client.say({ type: 'chat/done', request_id })
    }
  }

  async function send(client: ChatClient, { thread_id, trigger, message }: ChatMessage & { type: 'chat/send' }) {
    const speaker = client.speaker()
    if (trigger === 'regenerate-message') {
      return { ...(await runs.regenerate(speaker, thread_id, client.page())), is_queued: false }
    }
    return runs.send(speaker, {
      id: message?.id ?? '',
      text: message?.text ?? '',
      skill: message?.skill,
      thread_id,
      is_edit: trigger === 'edit-message',
      page: client.page(),
      client: null,
    })
  }

  function countRefusal(client: ChatClient): void {
    const bucket = refusals.get(client) ?? new TokenBucket(refusalRate)
    refusals.set(client, bucket)
    if (bucket.wait(1, clock()) > 0) client.flooded()
    else bucket.spend(1, clock())
  }

  function refuse(client: ChatClient, { request_id }: ChatMessage, error: unknown): void {
    if (!(error instanceof Failure)) log.error({ err: error }, 'Could not handle a request to the agent')
    const { code, message, data } =
      error instanceof Failure
        ? error.envelope
        : { code: 'INTERNAL_ERROR', message: 'Something went wrong on the server. Try again.', data: undefined }
    const values = error instanceof Failure && !error.envelope.defined ? data : undefined
    const details = typeof data?.details === 'string' ? `${String(data.field)}: ${data.details}` : message
    if (code === 'TOO_MANY_REQUESTS' || code === 'SIGN_IN_NEEDED') countRefusal(client)
    const seconds = error instanceof Failure ? Number(error.headers['retry-after']) : Number.NaN
    client.say({
      type: 'chat/error',
      request_id,
      code: String(data?.code ?? code),
      message: details,
      ...(values && { values }),
      ...(seconds > 0 && { retry_after_ms: seconds * 1000 }),
    })
  }

  return {
    receive(client, message) {
      const count = busy.get(client) ?? 0
      if (count >= mostRequests) {
        const { request_id } = message
        const error = { code: 'TOO_MANY_REQUESTS', message: 'Wait for the responses to earlier requests.' }
        client.say({ type: 'chat/error', request_id, ...error })
        return countRefusal(client)
      }
      busy.set(client, count + 1)
      handle(client, message)
        .catch((error) => refuse(client, message, error))
        .finally(() => busy.set(client, (busy.get(client) ?? 1) - 1))
    },
    left(client) {
      gone.add(client)
      shown.get(client)?.end()
      shown.delete(client)
    },
  }
}

/** Shows a thread's runs to a client. What comes after something long waits until that is sent. */
function viewerOf(
  client: ChatClient,
  { outbox, space, limits }: { outbox: Outbox; space: SendingSpace; limits: ChatLimits },
  thread_id: string,
  links: ConnectLinks,
): Viewer & { end(): void } {
  let hasEnded = false
  const isOver = () => hasEnded

  function pass(messages: readonly ServerMessage[]): void {
    const [message, ...more] = messages
    if (more.length > 0) sendLong(messages)
    else if (!outbox.isEmpty) void outbox.send({ messages, isOver })
    else if (message) client.say(message)
  }

  function sendLong(messages: readonly ServerMessage[]): void {
    const { organization_id: organizationId, end_user } = client.speaker().holder
    const length = messages.length * portionLength
    limits.charge(client.speaker(), length)
    const free = space.take({ organizationId, isVisitor: !end_user }, length)
    if (free) void outbox.send({ messages, isOver }).finally(free)
    else client.comeBack('Too many long conversations are being sent')
  }

  return {
    chunks({ id, attempt }, n, chunks) {
      const shown = [...links.addTo(client.speaker().holder.organization_id, chunks)]
      let position = n
      const messages: ServerMessage[] = []
      for (const portion of portionsOf(shown)) {
        messages.push({ type: 'chat/chunk', thread_id, run_id: id, attempt, n: position, chunks: portion })
        position += portion.length
      }
      pass(messages)
    },
    rested({ id, ...rest }) {
      pass([{ type: 'chat/end', thread_id, run_id: id, ...rest }])
    },
    end() {
      hasEnded = true
    },
  }
}
