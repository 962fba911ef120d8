import openapiTS, { astToString } from 'openapi-typescript'

/** The types of every operation, as TypeScript. In a package of its own, because the generator needs an older compiler. */
export async function generateClientTypes(document: Record<string, unknown>): Promise<string> {
  return `// Made from openapi.json by \`npm run generate\`.\n${astToString(await openapiTS(document as never))}`
}
