/** The parts of Swagger UI that the reference uses. The package has no types. */
declare module 'swagger-ui-dist/swagger-ui-es-bundle.js' {
  export interface SwaggerRequest {
    url: string
    headers: Record<string, string>
    curlOptions: string[]
    userFetch: (url: string, options: RequestInit) => Promise<Response>
    /** Set when Swagger UI reads a document instead of calling an operation. */
    loadSpec?: boolean
  }
  export interface System {
    React: typeof import('react')
    layoutActions: { parseDeepLinkHash(hash: string): void }
  }
  export type Plugin = (system: System) => {
    components?: Record<string, (properties: never) => React.ReactNode>
    wrapComponents?: Record<
      string,
      (
        original: React.ComponentType<{ 'aria-label': string }>,
        system: System,
      ) => (properties: never) => React.ReactNode
    >
  }
  interface SwaggerUI {
    (options: Record<string, unknown> & { plugins: Plugin[] }): { getSystem(): System }
    presets: { apis: unknown }
  }
  const SwaggerUI: SwaggerUI
  export default SwaggerUI
}
