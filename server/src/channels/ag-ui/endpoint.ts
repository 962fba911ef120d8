import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Runs, Speaker } from '../../agent/runs/runs.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { readText, sendJson } from '../../kernel/http/connections.ts'
import {
  type Endpoint,
  isPreflight,
  parseBody,
  preflightHeaders,
  readJson,
  requireJsonPost,
  sendFailure,
} from '../../kernel/http/json-endpoint.ts'
import type { Observation } from '../../kernel/http/observation.ts'
import { failure, invalid, notFound } from '../../kernel/lib/errors.ts'
import { completeConsent, createConnectLinks } from '../../tools/consent/end-user-consents.ts'
import type { EndOfConversation, HeldAccess, HeldConversation } from '../../visitors/tickets/ends-of-access.ts'
import { checkHolder } from '../../visitors/tickets/standing.ts'
import { createAttendance } from './attendance.ts'
import { Follower } from './follower.ts'
import { readConnectRequest, readRunRequest, readStopRequest } from './request.ts'
import type { AgentSession, AgentSessions } from './sessions.ts'
import { EventStream } from './stream.ts'

/** Clients send the whole conversation with every request. */
const bodyLimit = 1024 * 1024
const shortBodyLimit = 4 * 1024

/** Serves AG-UI 1.0 at `/ag-ui`. */
export interface AgUi {
  /** Serves `/ag-ui` and the paths below it. */
  serve: Endpoint
  /** Ends all streams. The runs continue. */
  endStreams(): void
  close(): Promise<void>
}

/** A request whose access can end at any time, like that of a socket. */
class Visit implements HeldConversation {
  readonly isConversation = true
  readonly session: AgentSession
  /** Aborts with the response for requests that aren't answered yet. */
  readonly abort = new AbortController()
  follower: Follower | undefined

  constructor(session: AgentSession) {
    this.session = session
  }

  accessEnded(why: EndOfConversation): void {
    this.abort.abort(invalidSession(endedBecause[why]))
    this.follower?.endAccess(why)
  }
}

/** `graceMs` is for tests; see attendance.ts. */
export async function createAgUi(
  service: Service & { runs: Runs; agentSessions: AgentSessions; heldAccess: HeldAccess },
  graceMs?: number,
): Promise<AgUi> {
  const attendance = await createAttendance(service, graceMs)
  const needs = { ...service, attendance, links: createConnectLinks(service) }
  const visits = new Set<Visit>()

  const speakerOf = ({ holder, visitor }: AgentSession, request: IncomingMessage): Speaker => ({
    holder,
    visitor,
    address: service.clientAddress(request),
    is_own_frame: false,
  })

  async function run(visit: Visit, request: IncomingMessage, response: ServerResponse, seen: Observation) {
    const { session, abort } = visit
    requireEventStream(request.headers)
    const text = await readText(request, bodyLimit)
    const input = readRunRequest(parseBody(text))
    abort.signal.throwIfAborted()
    const release = attendance.admit(session.holder, session.visitor, Buffer.byteLength(text))
    const closed = new Promise<void>((resolve) => response.once('close', resolve))
    const stream = new EventStream(response, seen.headers)
    const follower = new Follower(needs, speakerOf(session, request), input, stream)
    visit.follower = follower
    try {
      await follower.begin(abort.signal)
      await closed
    } finally {
      release()
    }
  }

  async function stop({ session }: Visit, request: IncomingMessage, response: ServerResponse, seen: Observation) {
    const { thread } = readStopRequest(await readJson(request, shortBodyLimit))
    await service.runs.stop(speakerOf(session, request), thread)
    response.writeHead(204, seen.headers).end()
  }

  async function connect(
    { session: { holder } }: Visit,
    request: IncomingMessage,
    response: ServerResponse,
    seen: Observation,
  ) {
    const { code } = readConnectRequest(await readJson(request, shortBodyLimit))
    const connector = await completeConsent(service, holder, code)
    sendJson(response, 200, seen.headers, JSON.stringify({ connector }))
  }

  const actions = new Map([
    ['/ag-ui', { name: 'ag-ui', act: run }],
    ['/ag-ui/stop', { name: 'ag-ui.stop', act: stop }],
    ['/ag-ui/connect', { name: 'ag-ui.connect', act: connect }],
  ])

  return {
    async serve(request, response, observation, { path }) {
      const { name, act } = actions.get(path.replace(/\/$/, '')) ?? { name: 'other', act: undefined }
      try {
        if (!act) throw notFound('route', `${request.method} ${path}`)
        if (isPreflight(request)) {
          allow(request, response, observation)
          return name
        }
        requireJsonPost(request, refusals)
        const session = readSession(service, request, observation)
        const visit = new Visit(session)
        visits.add(visit)
        service.heldAccess.hold(session.holder, visit)
        try {
          await requireStanding(service, visit)
          await act(visit, request, response, observation)
        } finally {
          visits.delete(visit)
          service.heldAccess.release(session.holder, visit)
        }
      } catch (error) {
        sendFailure(service, error, response, observation)
      }
      return name
    },
    endStreams() {
      for (const { follower } of visits) follower?.interrupt()
    },
    close: () => attendance.close(),
  }
}

function allow({ headers }: IncomingMessage, response: ServerResponse, observation: Observation): void {
  const allowed = preflightHeaders(headers.origin, 'authorization, content-type, accept')
  response.writeHead(204, { ...observation.headers, ...allowed }).end()
}

const refusals = {
  method: (headers: Record<string, string>) => failure(405, 'METHOD_NOT_ALLOWED', 'Send a POST request', { headers }),
  body: (reason: string) => invalid('', reason),
}

function requireEventStream({ accept = '*/*' }: IncomingHttpHeaders): void {
  if (/text\/(event-stream|\*)|\*\/\*/.test(accept)) return
  throw failure(406, 'NOT_ACCEPTABLE', 'The response is an event stream. Send Accept: text/event-stream.')
}

function readSession(
  service: Service & { agentSessions: AgentSessions },
  { headers }: IncomingMessage,
  observation: Observation,
): AgentSession {
  const [, token] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? []
  const session = token === undefined ? undefined : service.agentSessions.open(token)
  if (!session) throw invalidSession('The session token is missing or isn’t valid.')
  const { holder, expiresAt } = session
  if (headers.origin !== undefined) {
    if (headers.origin !== holder.origin) {
      throw failure(403, 'ORIGIN_NOT_ALLOWED', 'The session token is for another origin. Each page needs its own.')
    }
    observation.headers['access-control-allow-origin'] = headers.origin
    observation.headers['access-control-expose-headers'] = 'x-request-id, retry-after'
    observation.headers.vary = 'Origin'
  }
  if (expiresAt <= service.clock()) throw invalidSession('The session token has expired.')
  return session
}

/** Checks the session on every request, so that it ends with its key and its end user. */
async function requireStanding(service: Service, { session: { holder }, abort }: Visit): Promise<void> {
  const standing = await checkHolder(service, holder)
  if (standing !== 'stands') throw invalidSession(endedBecause[standing])
  abort.signal.throwIfAborted()
}

const endedBecause: Record<EndOfConversation, string> = {
  key_revoked: 'The session’s publishable key was revoked.',
  user_removed: 'The session’s end user was deleted.',
  member_left: 'The access of the session’s member has ended.',
  user_deactivated: 'The organization’s directory has deactivated the session’s user.',
  terms_changed: 'The session’s origin or identity provider is no longer allowed.',
  visitors_refused: 'Anonymous visitors can no longer talk to the agent.',
}

const invalidSession = (reason: string) =>
  failure(401, 'INVALID_SESSION', `${reason} Exchange a new ticket at POST /api/agent/session.`)
