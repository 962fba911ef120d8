export const scopes = ['mcp:tools:read', 'mcp:tools:call'] as const
export type Scope = (typeof scopes)[number]

const scopeOf: Record<string, Scope> = { 'tools/list': 'mcp:tools:read', 'tools/call': 'mcp:tools:call' }

/** Returns the scopes that an MCP message or batch needs. Methods that don't concern tools need no scope. */
export function scopesFor(message: unknown): Scope[] {
  const methods = [message].flat().map((each) => (each as { method?: unknown } | null | undefined)?.method)
  return scopes.filter((scope) => methods.some((method) => scopeOf[String(method)] === scope))
}
