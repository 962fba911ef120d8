import { ApiError } from '../../session/api.ts'

/** Why the server refused a field, to show beside it. */
export function fieldProblem(error: Error | null, field: string): string | undefined {
  if (!(error instanceof ApiError) || error.data.field !== field) return undefined
  return typeof error.data.details === 'string' ? error.data.details : undefined
}
