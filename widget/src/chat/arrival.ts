import type { Requests, ResponseOf } from './requests.ts'
import type { ShownState } from './shown-state.ts'
import type { AgentInfo } from './state.ts'

type Ask = Requests['ask']

/** Asks who the agent is. */
export const askAbout = (ask: Ask, { update, showRefusal }: ShownState) =>
  ask(
    { type: 'chat/about' },
    {
      kind: 'read',
      onResponse: (response) => response.type === 'chat/agent' && update({ agent: describeAgent(response) }),
      onRefusal: showRefusal,
    },
  )

/** Finds the newest thread if the agent works or waits in it. */
export const findActiveThread = (ask: Ask, { showRefusal }: ShownState, onFound: (threadId: string) => void) =>
  ask(
    { type: 'chat/threads' },
    {
      kind: 'read',
      onResponse(response) {
        const newest = response.type === 'chat/thread-list' ? response.threads[0] : undefined
        if (newest?.status === 'running' || newest?.status === 'waiting') onFound(newest.id)
      },
      onRefusal: showRefusal,
    },
  )

/** Completes the connection of an account at a third party. */
export const connectAccount = (ask: Ask, { update, showRefusal }: ShownState, code: string) =>
  ask(
    { type: 'chat/connect', code },
    {
      kind: 'once',
      onResponse(response) {
        if (response.type === 'chat/connected') update({ connectedService: response.connector })
      },
      onRefusal: showRefusal,
    },
  )

function describeAgent(about: ResponseOf<'chat/agent'>): AgentInfo {
  const { name, greeting, starter_prompts, skills, connector_count, problem } = about
  return {
    name,
    greeting,
    starterPrompts: starter_prompts,
    skills,
    connectorCount: connector_count,
    problem: problem ?? undefined,
  }
}
