import type { Service } from '../../kernel/foundation/service.ts'
import { InvalidJson, parseJson } from '../../kernel/lib/json.ts'
import { SafeFetchError } from '../../kernel/net/safe-fetch.ts'
import { type Step, StepFailed } from './steps.ts'

type Fetching = Pick<Service, 'fetch'>
type Document = Record<string, unknown>

/** Reads a published document; undefined if the server responds with a 4xx status. */
export async function readDocument(service: Fetching, step: Step, address: string): Promise<Document | undefined> {
  const response = await send(service, step, address, { headers: { accept: 'application/json' } })
  if (response.status >= 400 && response.status < 500) return undefined
  if (response.status !== 200) throw new StepFailed(step, `${address} responded with status ${response.status}`)
  return readObject(step, address, response)
}

export interface TokenRequest {
  endpoint: string
  form: Record<string, string>
  /** Credentials for HTTP Basic. */
  basic?: { id: string; secret: string } | undefined
  /** Removed from error messages that quote the response. */
  secrets: readonly string[]
  /** Added to the error message if the server responds with `invalid_grant`. */
  advice?: string
}

/** Sends a request to a token endpoint. Throws StepFailed with the server's error unless it succeeds. */
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
  throw new StepFailed(step, `${endpoint} responded with status ${response.status}${said && `: ${said}`}${next}`)
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
  throw new StepFailed(step, `${address} responded with status ${response.status}, but not with a JSON object`)
}

/** RFC 6749, section 2.3.1: both parts are form-encoded before they're joined. */
const encode = (text: string) => new URLSearchParams({ '': text }).toString().slice(1)

/** Describes an error response (RFC 6749, section 5.2), without the secrets we sent. */
function describe({ error, error_description }: Document, secrets: readonly string[]): string {
  const words = [error, error_description].filter((text) => typeof text === 'string').join(', ')
  return secrets.reduce((text, secret) => text.replaceAll(secret, '[secret]'), words)
}

export const splitScopes = (scope: string): string[] => scope.split(' ').filter(Boolean)
