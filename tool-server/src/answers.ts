/** A response before it belongs to a framework. */
export interface Answer {
  status: number
  headers: Record<string, string>
  body: string
}

export const answerJson = (status: number, body: object, headers: Record<string, string>): Answer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(body),
})

export const toResponse = ({ status, headers, body }: Answer): Response =>
  new Response(body === '' ? null : body, { status, headers })
