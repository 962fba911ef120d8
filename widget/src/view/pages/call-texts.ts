import type { PageTool } from '../../channel.ts'
import type { Call } from '../../frame/calls.ts'
import { plainText } from '../../frame/plain-text.ts'
import type { StringKey, Texts } from '../strings.ts'
import type { EarlierCall } from './earlier-calls.ts'

export const nameOfTool = ({ title, name }: PageTool): string => plainText(title ?? name)

/** Includes the connector's name, so that a page's tool can't be mistaken for it. */
export const labelOfCall = ({ tool, connector }: Pick<Call, 'tool' | 'connector'>): string =>
  connector ? `${plainText(connector.name)}: ${nameOfTool(tool)}` : nameOfTool(tool)

export const clientOf = ({ client }: Pick<Call, 'client'>, { say }: Texts): string =>
  plainText(client ?? '', 100) || say('yourAssistant')

const states: Record<Call['state'], StringKey> = {
  asking: 'toolAsking',
  allowed: 'stateAllowed',
  running: 'toolRunning',
  done: 'toolDone',
  failed: 'toolFailed',
  declined: 'toolDeclined',
  cancelled: 'stateCancelled',
}

/** The outcome of a call at a tool server isn't known here. */
export function stateOfCall(call: Call, { say }: Texts): string {
  const state = say(call.connector && call.state === 'done' ? states.allowed : states[call.state])
  return call.message ? `${state}: ${plainText(call.message)}` : state
}

export function stateOfEarlierCall(call: EarlierCall, { say }: Texts): string {
  const state = say(states[call.state])
  return call.message ? `${state}: ${call.message}` : state
}
