/** RFC 7644, table 9. */
export type ScimType =
  | 'invalidFilter'
  | 'tooMany'
  | 'uniqueness'
  | 'mutability'
  | 'invalidSyntax'
  | 'invalidPath'
  | 'noTarget'
  | 'invalidValue'

/** A refused request. `detail` is shown to the administrator at the other end. */
export class ScimError extends Error {
  override name = 'ScimError'
  readonly status: number
  readonly scimType: ScimType | undefined
  readonly headers: Record<string, string>

  constructor(status: number, detail: string, scimType?: ScimType, headers: Record<string, string> = {}) {
    super(detail)
    this.status = status
    this.scimType = scimType
    this.headers = headers
  }
}

export const badRequest = (scimType: ScimType, detail: string) => new ScimError(400, detail, scimType)

/** Text of the client for an error message, quoted and shortened. */
export const quote = (text: unknown): string => {
  const shown = (typeof text === 'string' ? text : (JSON.stringify(text) ?? String(text))).replace(/\p{C}/gu, '�')
  return `“${shown.length > 120 ? `${shown.slice(0, 119)}…` : shown}”`
}
