import type { Service } from '../foundation/service.ts'
import { InvalidJson, parseJson } from '../lib/json.ts'
import { SafeFetchError } from '../net/safe-fetch.ts'
import { type Step, StepFailed } from './steps.ts'

type Fetching = Pick<Service, 'fetch'>
type Document = Record<string, unknown>

/** A published document; undefined where there is none. */
export async function readDocument(service: Fetching, step: Step, address: string): Promise<Document | undefined> {
  const response = await send(service, step, address, { headers: { accept: 'application/json' } })
  if (response.status >= 400 && response.status < 500) return undefined
  if (response.status !== 200) throw new StepFailed(step, `${address} answered with status ${response.status}`)
  return readObject(step, address, response)
}

export interface TokenRequest {
  endpoint: string
  form: Record<string, string>
  /** For HTTP Basic. */
  basic?: { id: string; secret: string } | undefined
  /** What must not be repeated from the answer. */
  secrets: readonly string[]
  /** What to try when the grant is refused. */
  advice?: string
}

/** A request to a token endpoint. What is not a success is a failure with the words of the other side. */
export async function requestToken(service: Fetching, step: Step, request: TokenRequest): Promise<Document> {
  const { endpoint, form, basic, secrets, advice } = request
  const response = await send(service, step, endpoint, {
    method: 'POST',
    headers: {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      ...(basic && { authorization: `Basic ${btoa(`${encode(basic.id)}:${encode(basic.secret)}`)}` }),
    },
    body: new URLSearchParams(form).toString(),
  })
  const body = await readObject(step, endpoint, response)
  if (response.status === 200) return body
  const said = describe(body, secrets)
  const next = advice && body.error === 'invalid_grant' ? `. ${advice}` : ''
  throw new StepFailed(step, `${endpoint} answered with status ${response.status}${said && `: ${said}`}${next}`)
}

async function send({ fetch }: Fetching, step: Step, address: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(address, init)
  } catch (error) {
    if (error instanceof SafeFetchError) throw new StepFailed(step, error.message, { cause: error })
    throw error
  }
}

async function readObject(step: Step, address: string, response: Response): Promise<Document> {
  try {
    const value = parseJson(await response.text())
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Document
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error
  }
  throw new StepFailed(step, `${address} answered with status ${response.status}, but not with a JSON object`)
}

/** RFC 6749, section 2.3.1: both halves are form-encoded before they are joined. */
const encode = (text: string) => new URLSearchParams({ '': text }).toString().slice(1)

/** The error of RFC 6749, section 5.2, without what we sent. */
function describe({ error, error_description }: Document, secrets: readonly string[]): string {
  const words = [error, error_description].filter((text) => typeof text === 'string').join(', ')
  return secrets.reduce((text, secret) => text.replaceAll(secret, '[secret]'), words)
}

export const splitScopes = (scope: string): string[] => scope.split(' ').filter(Boolean)
